"""`evenkeel backup`, `restore`, `check`: copies of a service's folder, and whether all is well in it."""

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.console import notes, out
from evenkeel.errors import EvenkeelError
from evenkeel.files import keep_files_private

Folder = Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="Folder of the service.")]
PLACES = "folder, a .tar file, or a URL such as s3://bucket/model.tar"


def backup_command(
    folder: Folder, target: Annotated[str, typer.Argument(help=f"Where to write the backup: a new {PLACES}.")]
) -> None:
    """Back up a service, also while it runs: all that was accepted so far, and the versions that are kept."""
    from evenkeel.service.store.backup import back_up
    from evenkeel.service.store.model_folder import ModelFolder

    keep_files_private()
    model_folder = ModelFolder(folder)
    model_folder.require()
    with notes.status("Copying"):
        facts = back_up(model_folder, target)
    out.print(f"{target}: version {facts['version']}, {facts['waiting']:,} examples are waiting", soft_wrap=True)


def restore_command(
    source: Annotated[str, typer.Argument(help=f"The backup: a {PLACES}.")],
    folder: Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="Folder to create.")],
) -> None:
    """Restore a backup to a new folder, after all of its files were checked."""
    from evenkeel.service.store.backup import restore

    keep_files_private()
    with notes.status("Restoring"):
        facts = restore(source, folder)
    out.print(f"{folder}: version {facts['version']}, {facts['waiting']:,} examples are waiting", soft_wrap=True)


def check_command(folder: Folder) -> None:
    """Check every row, version and promise of a service that is not running. Exits with 1 if anything is wrong."""
    from evenkeel.service.store.check import check
    from evenkeel.service.store.model_folder import ModelFolder

    model_folder = ModelFolder(folder)
    model_folder.require()
    model_folder.lock()
    try:
        wrong = list(check(model_folder))
    finally:
        model_folder.release()
    for sentence in wrong:
        out.print(sentence, style="red", soft_wrap=True, highlight=False)
    if wrong:
        raise EvenkeelError(f"{len(wrong)} things are wrong in {str(folder)!r}.")
    out.print(f"All is well in {str(folder)!r}.", soft_wrap=True)
