"""Fill the tables of docs/reproduction.md with the output of the commands above them: `make docs`.

A place to fill is a comment with a command, such as <!-- $ evenkeel table results/digits -->, and ends at <!-- end -->.
"""

import io
import os
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

from evenkeel.cli import app

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
PLACE = re.compile(r"(<!-- \$ evenkeel (?P<command>.+?) -->\n).*?(?=<!-- end -->)", re.S)


def filled(text: str) -> str:
    def fill(place: re.Match[str]) -> str:
        output = io.StringIO()
        with redirect_stdout(output):
            app(shlex.split(place["command"]), standalone_mode=False)
        return f"{place[1]}\n{output.getvalue().strip()}\n\n"

    os.chdir(ROOT)  # the paths of ledgers in the commands are relative to it
    return PLACE.sub(fill, text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
