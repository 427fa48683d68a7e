"""Commands, called as a user would call them."""

import sys

import pytest

from evenkeel import cli


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return exit code, output and errors."""
    before, sys.argv = sys.argv, ["evenkeel", *arguments]
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    shown = capsys.readouterr()
    return code, shown.out, shown.err
