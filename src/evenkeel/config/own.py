"""Parts of the user's own: `module:Name` in a config, registered names, entry points of packages.

Only a config or a command of whoever starts a program imports them, here, into the registries. What a file of results
names (a checkpoint, a model folder, a ledger) is looked up in the registries, and never imported.
"""

import hashlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from evenkeel.config.called import called_by, class_calling, takes_samples
from evenkeel.config.schema import PARTS, LearnerConfig
from evenkeel.errors import EvenkeelError, SettingsError, nearest
from evenkeel.learning.adaptors import Adaptor
from evenkeel.learning.methods import Method

CLASSES: dict[str, type] = {"method": Method, "adaptor": Adaptor}  # parts that must be subclasses
ENTRY_POINTS = {kind: "evenkeel.data" if kind == "data" else f"evenkeel.{kind}s" for kind in PARTS}  # their groups
OBJECT = "object:"  # the beginning of the names of objects that were passed in, which no import finds
MAIN = "__main__"


@dataclass(frozen=True)
class OwnPart:
    """A part that is not of this library: where another process imports it from, and the file that defines it."""

    kind: str
    name: str  # in the config
    reference: str  # module:Name
    file: Path | None
    called: bool = False  # whether it is a function that augments samples itself, and returns no object that does

    @property
    def digest(self) -> str:
        """Return 16 hexadecimal digits of the file that defines the part; an empty text if there is none.

        Helpers that the file imports from others are not covered.
        """
        if self.file is None:
            return ""
        about = self.file.stat()
        return _digest(self.file, about.st_mtime_ns, about.st_size)

    @property
    def version(self) -> str:
        """Return what records show as its version."""
        return f"sha256 {self.digest} of {self.file.name}" if self.file else "without a file"

    def require_importable(self) -> None:
        """Raise SettingsError if no other process could import it: then no ledger can know it."""
        module = self.reference.partition(":")[0]
        if self.file is None or module == MAIN or "<locals>" in self.reference:
            raise SettingsError(
                f"{self.kind}.name = {self.name!r} cannot be part of a grid: its ledger knows a part by the file that "
                f"defines it, and its workers import it, but this one is {_where(self)}. Put it into a module, and "
                "name it module:Name."
            )


def _where(part: OwnPart) -> str:
    if part.name.startswith(OBJECT):
        return "an object of this process"
    return "defined in the main program" if part.reference.startswith(MAIN) else "not in a file, or inside a function"


@lru_cache(maxsize=100)
def _digest(file: Path, _changed: int, _size: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def import_modules(names: Iterable[str]) -> None:
    """Import modules that register parts (`ek.METHODS["mine"] = Mine`), or single parts as module:Name."""
    for name in names:
        if ":" not in name:
            _module(name)
            continue
        part = imported(name)
        for kind in PARTS:
            if _suits(kind, part):
                _registry(kind)[name] = part


def admit(tables: Mapping[str, Any]) -> None:
    """Import what the tables of a user's own config name and the registries lack; raise SettingsError if it fails."""
    for kind, table in _parts_in(tables):
        if isinstance(table.get("name"), str):
            _admit(kind, table["name"])
            if kind == "augment" and len(table) == 1:
                _let_be_called(table["name"])


def _parts_in(tables: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the kind and table of each part that the tables of a config describe, and of the parts in these."""
    outer = [
        (kind, table)
        for kind in PARTS
        for table in (tables[kind] if isinstance(tables.get(kind), list) else [tables.get(kind)])
        if isinstance(table, Mapping)
    ]
    inner = ((name, table.get(name)) for kind, table in outer for name in PARTS[kind].inner)
    yield from outer
    yield from ((kind, table) for kind, table in inner if isinstance(table, Mapping))


def _admit(kind: str, name: str) -> None:
    if name in PARTS[kind].registry and ("<locals>" in name or name.startswith((OBJECT, MAIN))):
        return
    if ":" in name and not name.startswith(OBJECT):
        register(kind, name, imported(name))  # again each time: the module may have been reloaded
    elif name not in PARTS[kind].registry:
        for point in entry_points(group=ENTRY_POINTS[kind], name=name):
            register(kind, name, point.load())


def _let_be_called(name: str) -> None:
    """Register an augmentation that is a function of (x, generator) as a class: one that builds it needs settings."""
    part = _registry("augment").get(name)
    if part is not None and takes_samples(part):
        _registry("augment")[name] = class_calling(part)


def imported(reference: str) -> Callable[..., Any]:
    """Return what module:Name refers to; raise SettingsError if it cannot be imported."""
    module_name, _, path = reference.partition(":")
    part: Any = _module(module_name)
    for step in path.split("."):
        try:
            part = getattr(part, step)
        except AttributeError:
            raise SettingsError(f"{module_name} has no {path!r}.{nearest(step, dir(part))}") from None
    if not callable(part):
        raise SettingsError(f"{reference} is a {type(part).__name__}, not a class or function.")
    return cast(Callable[..., Any], part)


def _module(name: str) -> Any:
    """Import a module; the working folder is searched last, so that it hides no installed package."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return import_module(name)
    except Exception as error:  # a user's module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise SettingsError(
                f"There is no module {name!r} to import; it is looked for in the installed packages and in "
                f"{os.getcwd()!r}."
            ) from error
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = getattr(error, "lineno", None) or last.lineno
        file = getattr(error, "filename", None) or last.filename
        raise SettingsError(f"{name} cannot be imported: {_described(error)} ({file}, line {line}).") from error


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _suits(kind: str, part: object) -> bool:
    base = CLASSES.get(kind)
    if base is None:
        return not (inspect.isclass(part) and issubclass(part, tuple(CLASSES.values())))
    return inspect.isclass(part) and issubclass(part, base)


def register(kind: str, name: str, part: Callable[..., Any]) -> None:
    """Let configs name a part so; raise SettingsError if it cannot be one of this kind."""
    if not _suits(kind, part):
        wanted = f"a subclass of ek.{CLASSES[kind].__name__}" if kind in CLASSES else "a function or class"
        raise SettingsError(f"{kind}.name = {name!r} is {part!r}; it must be {wanted}.")
    if called_by(_registry(kind).get(name)) is not part:  # else it is registered, as the class that calls it
        _registry(kind)[name] = part


def _registry(kind: str) -> dict[str, Callable[..., Any]]:
    return cast(dict[str, Callable[..., Any]], PARTS[kind].registry)


def reference_of(part: Callable[..., Any]) -> str:
    """Return the module:Name of a class or function."""
    return f"{part.__module__}:{part.__qualname__}"


def own_parts(config: LearnerConfig) -> list[OwnPart]:
    """Return the parts of a config that are not of this library."""
    parts = []
    for kind, table in _parts_in({kind: getattr(config, kind, None) for kind in PARTS}):
        factory = PARTS[kind].registry.get(table["name"])
        if factory is not None and not str(getattr(factory, "__module__", "")).startswith("evenkeel."):
            file, called = _file(factory), called_by(factory) is not None
            parts.append(OwnPart(kind, table["name"], _reference(factory), file, called))
        elif factory is not None and table["name"].startswith(OBJECT):
            parts.append(OwnPart(kind, table["name"], table["name"], None))
    return parts


def _reference(factory: Callable[..., Any]) -> str:
    try:
        return reference_of(factory)
    except AttributeError:  # of functools, say
        return f"{MAIN}:{factory!r}"


def _file(factory: Callable[..., Any]) -> Path | None:
    try:
        file = inspect.getsourcefile(factory)
    except (TypeError, OSError):  # of the main program, without a file
        return None
    return Path(file) if file and Path(file).is_file() else None


def register_again(parts: Iterable[OwnPart]) -> None:
    """Import parts in another process, under the names by which the first one knows them."""
    for part in parts:
        found = imported(part.reference)
        register(part.kind, part.name, class_calling(found) if part.called else found)


def versions_of(config: LearnerConfig) -> dict[str, str]:
    """Return the versions of own parts by name, for records: digests of the files that define them."""
    return {part.name: part.version for part in own_parts(config)}


@contextmanager
def naming_the_line(config: LearnerConfig) -> Iterator[None]:
    """Add to an error in the user's own code the file and line where it occurred."""
    try:
        yield
    except EvenkeelError:
        raise
    except Exception as error:
        files = {str(part.file) for part in own_parts(config)}
        lines = [each for each in traceback.extract_tb(error.__traceback__) if each.filename in files]
        if lines and not getattr(error, "__notes__", ()):
            error.add_note(f"In your own part: {lines[-1].filename}, line {lines[-1].lineno}, in {lines[-1].name}.")
        raise
