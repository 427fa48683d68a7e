"""`evenkeel keys`: who may use a service."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from evenkeel.cli.console import notes, print_table
from evenkeel.cli.service import Folder, open_model_folder
from evenkeel.service.store.keys import SCOPES, Key, add_key, read_keys, remove_key

app = typer.Typer(
    help="Manage the API keys of a service: who may predict, teach, or do everything.", no_args_is_help=True
)


@app.command("add")
def add_command(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Name of the key, for example its owner.")],
    scope: Annotated[list[str], typer.Option(help=f"What it allows: {', '.join(SCOPES)}. May be repeated.")],
    days: Annotated[int | None, typer.Option(help="Days until it expires. Default: never.", min=1, max=36500)] = None,
) -> None:
    """Create a key. It is shown once, and only its hash is stored."""
    model_folder = open_model_folder(folder)
    scopes = [word.strip() for option in scope for word in option.split(",")]
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    secret = add_key(model_folder.keys, name, scopes, expires)
    notes.print("Store it safely; it will not be shown again:")
    typer.echo(secret)


@app.command("list")
def list_command(folder: Folder) -> None:
    """List the names and scopes of the keys, and when they expire."""
    from evenkeel.results.table import ResultTable, Row

    model_folder = open_model_folder(folder)
    rows = [Row.of(key.name, ", ".join(key.scopes), key.made, _until(key)) for key in read_keys(model_folder.keys)]
    print_table(ResultTable("", ["name", "scopes", "created", "expires"], rows))


def _until(key: Key) -> str:
    return "never" if key.expires is None else f"{key.expires} (expired)" if key.has_expired else key.expires


@app.command("remove")
def remove_command(folder: Folder, name: Annotated[str, typer.Argument(help="Name of the key.")]) -> None:
    """Remove a key. A running service refuses it at once."""
    model_folder = open_model_folder(folder)
    remove_key(model_folder.keys, name)
    if not read_keys(model_folder.keys):
        notes.print(
            "That was the last key: nobody may use the service until you add one. To let everyone on this machine use "
            f"it without keys, stop it, delete {model_folder.keys}, and start it on 127.0.0.1.",
            soft_wrap=True,
        )
