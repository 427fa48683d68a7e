"""The long ordeal, as a command."""

import argparse
import logging
import tempfile
import time
from math import inf
from pathlib import Path

from tests.helpers.crashes.events import Ordeal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=inf, help="End after these, even if there were fewer kills.")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        ordeal = Ordeal(Path(scratch), arguments.seed)
        ordeal.run(ordeal.until(arguments.kills, begun + 60 * arguments.minutes))
        counted = ordeal.finish()
    kills, clients, twin = ordeal.running.kills, ordeal.clients, ordeal.twin
    print(
        f"{kills.all} kills in {time.monotonic() - begun:.0f} s ({kills.service} of the service, {kills.early} of them "
        f"before it was ready; {kills.learner} of the learner; {kills.commands} of backups, restores and checks): "
        f"{len(clients.acknowledged):,} examples and {len(clients.labelled):,} late labels acknowledged, "
        f"{clients.predicted:,} predictions. Accepted {counted['accepted']:,} = learned {counted['learned']:,} + "
        f"waiting {counted['waiting']:,} + withdrawn {counted['withdrawn']:,}, none twice, in {twin.batches:,} "
        f"batches, with {twin.rollbacks} rollbacks and {len(twin.forgotten):,} examples forgotten by "
        f"{len(ordeal.forgets)} requests; equal to the twin, bit for bit."
    )
    for event, count in sorted(ordeal.counts.items()):
        print(f"{count:4} {event}")


if __name__ == "__main__":
    main()
