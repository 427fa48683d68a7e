"""What a run in a ledger is called: its key, by which it is found again, and a name that people can read."""

import hashlib
import json
import re

from evenkeel.config.build import with_policy
from evenkeel.config.own import own_parts
from evenkeel.config.schema import PLACES
from evenkeel.experiment.config import Config
from evenkeel.results.records import Started, is_rar, with_rar, without_none


def run_key(config: Config) -> str:
    """Return 16 hexadecimal digits that identify a run.

    Name, threads and devices do not count: they say what it is called and how fast it was. Nor do settings
    that are none by default, or that came after version 0.1 and have their default (see `evenkeel.config.written`).
    Parts of the user's own count with a digest of the files that define them.
    """
    settings = with_policy(config).model_dump(mode="json", exclude={"name": True, "threads": True, **PLACES})
    own = own_parts(config)
    for part in own:
        part.require_importable()
    if own:
        settings["own"] = {part.name: part.digest for part in own}
    return hashlib.sha256(json.dumps(without_none(with_rar(settings)), sort_keys=True).encode()).hexdigest()[:16]


def readable_name(started: Started) -> str:
    """Name a run by data, scenario, memory, method, adaptor and seed, such as `cifar10-500-derpp-cba-seed2`."""
    config = started.config
    scenario = (config.get("scenario") or {}).get("name", "stream")
    parts = [
        started.data["name"],
        "" if scenario == "disjoint" else scenario,
        config["memory"]["capacity"],
        "rar" if is_rar(config) else "",
        config["method"]["name"],
        (config.get("adaptor") or {}).get("name", ""),
        f"seed{config['seed']}",
    ]
    return "-".join(re.sub(r"[^a-z0-9_]+", "-", str(part).lower()).strip("-") for part in parts if part != "")
