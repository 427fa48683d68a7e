"""The tables of the journal, and how the journal of an earlier version is taken over.

`PRAGMA user_version` is the number of the newest step that was made. Version 0.1 left 0 or 1 there, in either case
for the first step.
"""

import secrets
import sqlite3

from evenkeel.service.store.checksums import row_checksum

NEWEST = 2

FIRST = """
CREATE TABLE IF NOT EXISTS examples (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order in which they are learned
    id TEXT NOT NULL UNIQUE,
    own INTEGER NOT NULL,                   -- whether the client chose the id, and so may send it again
    digest BLOB NOT NULL,                   -- of sample and label: what is sent again must be the same
    label TEXT,                             -- JSON
    x BLOB,                                 -- NULL, as the label, once it is inside two checkpoints
    batch INTEGER                           -- NULL while it waits
);
CREATE INDEX IF NOT EXISTS waiting ON examples(seq) WHERE batch IS NULL;
CREATE INDEX IF NOT EXISTS held ON examples(batch) WHERE x IS NOT NULL;
CREATE TABLE IF NOT EXISTS answers (       -- of predictions that were labelled, the newest
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    right INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS versions (
    number INTEGER PRIMARY KEY,             -- of the last batch inside
    time REAL NOT NULL,
    learned INTEGER NOT NULL,
    asked INTEGER NOT NULL,                 -- whether someone asked for it
    note TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value);
INSERT OR IGNORE INTO meta VALUES ('batch', 0), ('current', 0), ('accepted', 0), ('withdrawn', 0), ('labelled', 0),
    ('right', 0);
"""

SECOND = """
ALTER TABLE examples ADD COLUMN checksum INTEGER;                        -- see `checksums`
ALTER TABLE examples ADD COLUMN aside TEXT;                              -- why it could not be learned
CREATE INDEX aside ON examples(batch) WHERE aside IS NOT NULL;
ALTER TABLE versions ADD COLUMN state TEXT NOT NULL DEFAULT 'kept';      -- or 'writing', 'deleting'
ALTER TABLE versions ADD COLUMN line INTEGER NOT NULL DEFAULT 0;         -- rollbacks and adoptions before it
ALTER TABLE versions ADD COLUMN source INTEGER;                          -- the version it is a copy of, by a rollback
CREATE TABLE forgotten (                   -- answers to requests to forget, to repeat them
    hash BLOB PRIMARY KEY,                 -- of the id
    seq INTEGER NOT NULL,
    answer TEXT NOT NULL                   -- JSON
);
CREATE INDEX forgotten_order ON forgotten(seq);
INSERT INTO meta VALUES ('position', 0), ('line', 1), ('unscrubbed', 1);
INSERT INTO meta SELECT 'dropped', value FROM meta WHERE name = 'current';  -- the last batch without samples
-- Older versions must not delete what they do not know. What they insert first makes them refuse with this sentence.
CREATE TRIGGER older_versions BEFORE INSERT ON meta WHEN NEW.name = 'batch' BEGIN
    SELECT RAISE(ABORT, 'it was written by a newer version of evenkeel; upgrade evenkeel to use it');
END;
"""


def prepare(db: sqlite3.Connection) -> None:
    """Create the tables, or take over those of an earlier version, in one transaction; raise DatabaseError if newer."""
    (number,) = db.execute("PRAGMA user_version").fetchone()
    if number > NEWEST:
        raise sqlite3.DatabaseError("it was written by a newer version of evenkeel; upgrade evenkeel to use it")
    if number == NEWEST:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in (FIRST, SECOND):
            for statement in _statements(step):
                db.execute(statement)
        db.execute("INSERT INTO meta VALUES ('identity', ?), ('salt', ?)", (new_identity(), new_identity()))
        # Which versions of an older journal follow from one another is unknown: the current one begins a line.
        db.execute("UPDATE versions SET line = 1 WHERE number = (SELECT value FROM meta WHERE name = 'current')")
        _add_checksums(db)
        db.execute(f"PRAGMA user_version = {NEWEST}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def new_identity() -> str:
    """Return a random name for a journal, by which checkpoints recognize it."""
    return secrets.token_hex(16)


def _statements(script: str) -> list[str]:
    """Return the statements of a script. (`executescript` would commit what was done before it.)"""
    statements, text = [], ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            statements.append(text)
            text = ""
    return statements


def _add_checksums(db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT seq, id, own, digest, label, x, batch FROM examples")
    sums = [(row_checksum(row[:-1], row[-1]), row[0]) for row in rows]
    db.executemany("UPDATE examples SET checksum = ? WHERE seq = ?", sums)
