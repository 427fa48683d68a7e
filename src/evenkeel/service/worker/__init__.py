"""The process that learns, and the supervisor that talks to it through a pipe."""
