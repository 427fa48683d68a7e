"""A checksum over the small tables of the journal: its counters and its list of versions, where one bit is a lot.

It is renewed by each commit. Rows of examples have checksums of their own.
"""

import sqlite3
import zlib

OPEN = ("seal", "unscrubbed")  # the checksum itself, and what a start changes before there are commits


def seal(db: sqlite3.Connection) -> None:
    """Renew the checksum, in the transaction that changed anything."""
    db.execute("INSERT OR REPLACE INTO meta VALUES ('seal', ?)", (_checksum(db),))


def require_sealed(db: sqlite3.Connection) -> None:
    """Raise DatabaseError if something was changed since the last commit. A journal may have no checksum yet."""
    row = db.execute("SELECT value FROM meta WHERE name = 'seal'").fetchone()
    if row is not None and row[0] != _checksum(db):
        raise sqlite3.DatabaseError("its counters or its list of versions fail their checksum")


def _checksum(db: sqlite3.Connection) -> int:
    values = db.execute("SELECT name, value FROM meta WHERE name NOT IN (?, ?) ORDER BY name", OPEN).fetchall()
    versions = db.execute("SELECT * FROM versions ORDER BY number").fetchall()
    return zlib.crc32(repr((values, versions)).encode())
