"""Forms with files (multipart/form-data, RFC 7578), of a body that is in memory.

A form with a field for each of 32 labels is read in a few calls; parsers that are fed piece by piece take longer for it
than all else that a request costs. What is not exactly a form is refused.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.exceptions import HTTPException

HEAD = 1_000  # bytes of a part's headers, far more than they need
_BOUNDARY = re.compile(r""";\s*boundary\s*=\s*(?:"([^"]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)""", re.IGNORECASE)
_CHARSET = re.compile(r""";\s*charset\s*=\s*"?([^\s;"]*)""", re.IGNORECASE)
_NAMED = re.compile(rb"content-disposition[ \t]*:[ \t]*form-data[ \t]*(;.*)", re.IGNORECASE)
_PARAMETER = rb"""[ \t]*;[ \t]*([a-zA-Z*]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;"]*)"""
_PARAMETERS = re.compile(rb"(?:%b)*[ \t]*" % _PARAMETER)


@dataclass(frozen=True)
class Form:
    """What a form holds under each name, in its order."""

    files: dict[str, list[bytes]] = field(default_factory=dict)
    fields: dict[str, list[str]] = field(default_factory=dict)


def read_form(body: bytes, content_type: str, *, files: int, fields: int) -> Form:
    """Return the files and fields of a form; raise HTTPException if it is none, or has more of them than allowed."""
    form, left = Form(), {True: files, False: fields}
    for part in _parts(body, content_type, files + fields):
        head, end, content = part.partition(b"\r\n\r\n")
        if not end or len(head) > HEAD:
            raise _refusal("A part of the form has no end of its headers, or very long ones.")
        name, is_file = _disposition(head)
        left[is_file] -= 1
        if left[is_file] < 0:
            raise _refusal(f"The form has too many {'files' if is_file else 'fields'}.")
        if is_file:
            form.files.setdefault(name, []).append(content)
        else:
            form.fields.setdefault(name, []).append(_text(content))
    return form


def _parts(body: bytes, content_type: str, most: int) -> list[bytes]:
    """Return what is between the boundaries, each part from the line break before its headers."""
    boundary, charset = _BOUNDARY.search(content_type), _CHARSET.search(content_type)
    if boundary is None:
        raise _refusal("A form needs a boundary of at most 70 characters in its content type.")
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise _refusal("The form's text cannot be decoded; send it as UTF-8.")
    line = b"--" + (boundary[1] or boundary[2]).encode("latin-1")
    parts = body.lstrip(b"\r\n").split(b"\r\n" + line, most + 1)
    if not parts[0].startswith(line):
        raise _refusal("The form does not begin with its boundary.")
    parts[0] = parts[0][len(line) :]
    if not parts[-1].startswith(b"--"):
        raise _refusal(f"The form does not end with its boundary, or it has more than {most:,} parts.")
    lines = [part.partition(b"\r\n") for part in parts[:-1]]
    if any(rest.strip(b" \t") for rest, _, _ in lines):
        raise _refusal("There is something behind a boundary of the form.")
    return [part for _, _, part in lines]


@lru_cache(1_000)  # clients send the same ones again and again
def _disposition(head: bytes) -> tuple[str, bool]:
    """Return the name of a part, and whether it is a file."""
    named = next(filter(None, map(_NAMED.fullmatch, head.split(b"\r\n"))), None)
    if named is None or not _PARAMETERS.fullmatch(named[1]):
        raise _refusal("A part of the form has no name.")
    parameters = {name.lower(): value.strip(b'"') for name, value in re.findall(_PARAMETER, named[1])}
    if not parameters.get(b"name"):
        raise _refusal("A part of the form has no name.")
    return _text(parameters[b"name"]), not parameters.keys().isdisjoint((b"filename", b"filename*"))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeError:
        raise _refusal("The form's text cannot be decoded; send it as UTF-8.") from None


def _refusal(why: str) -> HTTPException:
    return HTTPException(400, why)
