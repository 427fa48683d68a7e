"""Data in the user's own files, whose content may change: the key of a run has only their path."""

from collections.abc import Mapping
from pathlib import Path

from evenkeel.data.readers.places import existing
from evenkeel.errors import DataError, RunError, counted, some
from evenkeel.experiment.config import Config
from evenkeel.experiment.setup import limited, read_data
from evenkeel.grids.ledger import Ledger
from evenkeel.results.run_files import started_of


def require_same_data(ledger: Ledger, runs: Mapping[str, Config], root: Path | None) -> None:
    """Raise RunError if finished runs were made with other content of the user's files than they have now."""
    digests: dict[str, str] = {}
    changed: dict[str, str] = {}  # the path, by where the run is
    for key, config in runs.items():
        if not _is_here(config, root) or not ledger.finished(key):  # in this order: the second reads a file
            continue
        what = config.model_dump_json(include={"data", "limits"})
        if what not in digests:
            digests[what] = limited(read_data(config.data, root, lambda *_: None), config.limits).digest
        if started_of(ledger.place(key)).data["digest"] != digests[what]:
            changed[str(ledger.place(key))] = str(config.data["path"])
    if changed:
        paths = some([*dict.fromkeys(changed.values())])
        raise RunError(
            f"{counted(len(changed), 'finished run')} in {str(ledger.path)!r} had other data than is in "
            f"{paths} now: {some([*changed])}. Delete what is outdated, or choose another folder with --out."
        )


def _is_here(config: Config, root: Path | None) -> bool:
    """Return whether the data is in files of the user's own that are here: results can be shown without them."""
    if not config.data.get("path"):
        return False
    try:
        existing(str(config.data["path"]), root)
    except DataError:  # no such file, or a name on the hub of Hugging Face
        return False
    return True
