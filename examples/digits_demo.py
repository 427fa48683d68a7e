"""ER and DER++ on a stream of handwritten digits, each with and without CBA: a table and an HTML report.

Run: make demo        (or: python examples/digits_demo.py --help)

Two classes at a time, one pass, a memory of 20 images. Resumes where it left off if interrupted.
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import evenkeel as ek
from evenkeel.cli.console import PROGRESS
from evenkeel.report.page import write_report
from evenkeel.results.formats import to_rich
from evenkeel.results.overview import measures_table
from evenkeel.results.records import Stepped
from evenkeel.results.run_files import Results

METHODS = ("er", "derpp")
PRESETS = {"plain": "digits", "cba": "digits-cba"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/digits-demo"))
    options = parser.parse_args()

    console = Console()
    configs = [
        (f"{method}-{name}-seed{seed}", _config(method, name, seed, options.memory))
        for seed in range(options.seeds)
        for method in METHODS
        for name in PRESETS
    ]
    runs = []
    with Progress(*PROGRESS, console=console) as progress:
        whole = progress.add_task("All runs", total=len(configs))
        for place, config in configs:
            bar = progress.add_task(f"{config.name}, seed {config.seed}", total=None)
            folder = options.out / f"memory{options.memory}" / place
            records = []
            for record in ek.run(config, out=folder):
                records.append(record)
                if isinstance(record, ek.Started):
                    progress.update(bar, total=record.steps)
                elif isinstance(record, Stepped):
                    progress.update(bar, completed=record.step)
            runs.append(Results.of(records, folder))
            progress.remove_task(bar)
            progress.advance(whole)

    console.print(f"Digits, 5 tasks of 2 classes, one pass, batch 10, memory {options.memory}")
    console.print(to_rich(measures_table(runs)))
    console.print(
        "ACC: accuracy over all tasks at the end. FM: accuracy lost since the best point of each task.\n"
        "ACC_AUC: mean accuracy during the stream. Learning accuracy: of each task right after it was learned."
    )
    report = options.out / "report.html"
    write_report(runs, report, title="Evenkeel demo: handwritten digits")
    console.print(f"Report: {report.resolve()}")


def _config(method: str, preset: str, seed: int, memory: int) -> ek.Config:
    return ek.load_config(PRESETS[preset], [f"method.name={method}", f"seed={seed}", f"memory.capacity={memory}"])


if __name__ == "__main__":
    main()
