"""Download known data sets from the Hugging Face hub into the layout that the readers expect."""

import os
import queue
import threading
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from evenkeel.data.dataset import Progress
from evenkeel.data.readers.places import cache_home
from evenkeel.errors import DataError, nearest, reason

REPOSITORIES = {
    "cifar10": ("uoft-cs/cifar10", "plain_text"),
    "cifar100": ("uoft-cs/cifar100", "cifar100"),
    "tiny-imagenet": ("zh-plus/tiny-imagenet", "data"),
    "fashion-mnist": ("zalando-datasets/fashion_mnist", "fashion_mnist"),
    "mnist": ("ylecun/mnist", "mnist"),
}
"""The repository of each set and the folder in it that holds the parquet files."""
PATIENCE = 15.0  # seconds within which the hub must answer
Result = TypeVar("Result")


def get(name: str, *, root: Path | None, progress: Progress, revision: str | None = None) -> Path:
    """Download the set `name` into `root/name` (or the user's cache) and return that folder.

    Files that are already there are kept, and an interrupted download is resumed. Raise DataError if the hub does not
    answer within PATIENCE seconds.
    """
    if name == "digits":
        raise DataError("The data set digits comes with scikit-learn; there is nothing to download.")
    if name not in REPOSITORIES:
        allowed = ", ".join(REPOSITORIES)
        raise DataError(f"{name!r} cannot be downloaded; choose from {allowed}.{nearest(name, REPOSITORIES)}")
    repository, inner = REPOSITORIES[name]
    folder = (root or cache_home() / "data") / name
    by_hand = f"the files {inner}/*.parquet of https://huggingface.co/datasets/{repository} into {folder / inner}"
    hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        revision, sizes = _within(PATIENCE, lambda: _listing(hub, repository, revision))
    except Exception as error:  # of requests, httpx or the hub's own, by the version of huggingface_hub
        problem = "could not be reached" if getattr(error, "response", None) is None else "refused the request"
        host = hub.partition("://")[2]
        raise DataError(f"{host} {problem} ({reason(error)}); try again later, or put {by_hand} by hand.") from error
    files = {file: size for file, size in sizes.items() if fnmatch(file, f"{inner}/*.parquet")}
    if not files:
        raise DataError(f"{repository} no longer has files {inner}/*.parquet.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be created for the download ({error.strerror}).") from error
    done, total = 0, sum(files.values())
    for file, size in files.items():
        progress(f"Downloading {name}: {file}", done, total)
        try:
            _fetch(hub, repository, revision, file, folder)
        except Exception as error:
            raise DataError(
                f"The download of {file} was interrupted ({reason(error)}); start it again, or put {by_hand} by hand."
            ) from error
        done += size
    progress(f"Downloaded {name}", total, total)
    return folder


def _listing(hub: str, repository: str, revision: str | None) -> tuple[str, dict[str, int]]:
    """Return the commit of `revision` (default: the newest), and its files with their sizes."""
    from huggingface_hub import HfApi

    # The sets are public, so no token is sent even if the user has one.
    info = HfApi(endpoint=hub, token=False).dataset_info(
        repository, revision=revision, files_metadata=True, timeout=PATIENCE / 2
    )
    return info.sha or "main", {file.rfilename: file.size or 0 for file in info.siblings or ()}


def _fetch(hub: str, repository: str, revision: str, file: str, folder: Path) -> None:
    from huggingface_hub import hf_hub_download

    hf_hub_download(
        repository, file, repo_type="dataset", revision=revision, local_dir=folder, endpoint=hub, token=False
    )


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return the result of `call`, or raise TimeoutError: its own timeout is per address, and a host can have many."""
    results: queue.Queue[Result | Exception] = queue.Queue()

    def run() -> None:
        try:
            results.put(call())
        except Exception as error:
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = results.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} seconds") from None
    if isinstance(result, Exception):
        raise result
    return result
