"""Pieces of deleted data in the file of a database, and how they are overwritten.

`secure_delete` overwrites a row where it is deleted. But where SQLite had moved it from one page to another before, a
copy may be left in the part of the old page that no row uses. VACUUM would rewrite the whole database, and needs as
much room again. Here those parts are overwritten in place: SQLite never reads them, so a kill at any moment does no
harm, and only pages that hold pieces are written. https://www.sqlite.org/fileformat2.html describes the pages.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

INTERIOR, LEAF = {2, 5}, {10, 13}  # kinds of pages, each for indexes and for tables
FILE_HEADER = 100  # bytes at the beginning of the first page


def overwrite_pieces(path: Path, roots: Sequence[int]) -> int:
    """Overwrite what no row uses in the trees with these root pages; return how many pages had something there.

    No connection may be open, and the log must be empty. Raises OSError if that fails; it can be repeated.
    """
    changed = 0
    with path.open("r+b") as file:
        size = int.from_bytes(os.pread(file.fileno(), 2, 16))
        size = 65536 if size == 1 else size  # which two bytes cannot hold
        (reserved,) = os.pread(file.fileno(), 1, 20)
        for number, page in _pages(file, size, roots):
            clean = _without_pieces(page, FILE_HEADER if number == 1 else 0, size - reserved)
            if clean != page:
                os.pwrite(file.fileno(), clean, (number - 1) * size)
                changed += 1
        os.fsync(file.fileno())
    return changed


def _pages(file: BinaryIO, size: int, roots: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of trees, each with its number."""
    numbers = [1, *roots]
    while numbers:
        number = numbers.pop()
        page = os.pread(file.fileno(), size, (number - 1) * size)
        start = FILE_HEADER if number == 1 else 0
        if len(page) == size and page[start] in INTERIOR | LEAF:
            yield number, page
            numbers += _children(page, start)


def _children(page: bytes, start: int) -> list[int]:
    """Return the numbers of the pages below a page."""
    if page[start] in LEAF:
        return []
    pointers = range(start + 12, start + 12 + 2 * _number(page, start + 3, 2), 2)
    places = [start + 8, *(_number(page, pointer, 2) for pointer in pointers)]
    return [_number(page, place, 4) for place in places]


def _without_pieces(page: bytes, start: int, usable: int) -> bytes:
    """Return a page with zeros between the pointers to its cells and the cells, and in the gaps between these."""
    clean = bytearray(page)
    pointers = start + (8 if page[start] in LEAF else 12) + 2 * _number(page, start + 3, 2)
    cells = _number(page, start + 5, 2) or 65536
    if pointers <= cells <= usable:
        clean[pointers:cells] = bytes(cells - pointers)
    gap = _number(page, start + 1, 2)
    while gap and gap + 4 <= (end := gap + _number(page, gap + 2, 2)) <= usable:
        clean[gap + 4 : end] = bytes(end - gap - 4)  # the first four bytes are the place of the next gap and its size
        following = _number(page, gap, 2)
        gap = following if following > gap else 0
    return bytes(clean)


def _number(page: bytes, place: int, width: int) -> int:
    return int.from_bytes(page[place : place + width])
