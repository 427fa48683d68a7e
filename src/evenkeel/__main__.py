"""`python -m evenkeel` is `evenkeel`."""

from evenkeel.cli import main

main()
