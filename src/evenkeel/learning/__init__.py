"""One learner: network, method, adaptor, memory, and the step that combines them. Needs only torch and numpy."""
