"""Grids of the user's own: a TOML file with configs, what to vary, and seeds."""

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, StrictInt, ValidationError

from evenkeel.config.loading import merged
from evenkeel.errors import SettingsError
from evenkeel.experiment.config import Config, load_config


def _is_setting(name: str) -> str:
    if name == "seed":
        raise ValueError("runs are repeated by seeds = ..., beside the blocks or the space")
    if not all(name.split(".")):
        raise ValueError(f"{name!r} names no setting; write part.setting")
    return name


Name = Annotated[str, AfterValidator(_is_setting)]
Distinct = Annotated[list[Annotated[NonNegativeInt, Field(strict=True)]], Field(min_length=1)]


class GridModel(BaseModel):
    model_config: ClassVar[ConfigDict] = {"extra": "forbid", "frozen": True}


File = TypeVar("File", bound=GridModel)


class Block(GridModel):
    """One base, with every combination of what varies."""

    base: str
    """A config file (beside the grid's own, or anywhere) or a preset"""
    set: dict[Name, Any] = {}
    """Settings of all runs, as tables or as "part.setting" """
    vary: dict[Name, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values by "part.setting", or whole tables by "part" """


class GridFile(GridModel):
    seeds: Annotated[StrictInt, Field(gt=0)] | Distinct = 1
    """How many, from 0, or which"""
    blocks: Annotated[list[Block], Field(min_length=1)]

    def all_seeds(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(dict.fromkeys(self.seeds))


def read_grid(path: Path) -> list[Config]:
    """All runs of a grid, those of the first seed first. Every fault of every combination is told at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "grid.toml"
    ...     _ = path.write_text('''
    ...         seeds = 3
    ...         [[blocks]]
    ...         base = "digits"
    ...         vary = { "method.name" = ["er", "derpp"], "memory.capacity" = [20, 50] }
    ...     ''')
    ...     [(config.name, config.memory.capacity, config.seed) for config in read_grid(path)][:3]
    [('ER', 20, 0), ('ER', 50, 0), ('DER++', 20, 0)]
    """
    grid = read_toml(path, GridFile)
    configs, faults = list[Config](), dict[str, list[str]]()
    for block in grid.blocks:
        for what, given in _combinations(block, path):
            try:
                configs.append(load_config(given))
            except SettingsError as error:
                faults.setdefault(str(error), []).append(what or "the base alone")
    if faults:
        raise SettingsError("\n".join(_told(error, combinations) for error, combinations in faults.items()))
    return [config.model_copy(update={"seed": seed}) for seed in grid.all_seeds() for config in configs]


def _told(error: str, combinations: list[str]) -> str:
    """A fault once, however many combinations have it."""
    others = len(combinations) - 1
    more = f" and {others} other combination{'s' * (others > 1)}" if others else ""
    return f"With {combinations[0]}{more}: {error}"


def _combinations(block: Block, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each as text for people, and as a config that extends the base."""
    base = {"extends": base_of(block.base, path)}
    fixed: dict[str, Any] = {}
    for name, value in block.set.items():
        fixed = merged(fixed, nested(name, value), other_part=False)
    for values in itertools.product(*block.vary.values()):
        change: dict[str, Any] = {}
        for name, value in zip(block.vary, values, strict=True):
            change = merged(change, nested(name, value), other_part=False)
        text = ", ".join(f"{name} = {value!r}" for name, value in zip(block.vary, values, strict=True))
        yield text, {**base, **merged(fixed, change)}


def base_of(name: str, path: Path) -> str:
    """A config beside `path`, with or without its ending, or else whatever `load_config` makes of the name."""
    candidates = (path.parent / name, path.parent / f"{name}.toml")
    beside = [each for each in candidates if each.is_file() and each.resolve() != path.resolve()]
    return str(beside[0].resolve()) if beside else name


KIND = re.compile(r"[\[\]()]|^(int|float|list|Range|constrained)")  # what pydantic adds where there are several kinds


def read_toml(path: Path, kind: type[File]) -> File:
    """A file that describes runs. What is wrong with it is told as a SettingsError."""
    try:
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise SettingsError(f"Cannot read {str(path)!r}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{str(path)!r} is not a TOML file: {error}.") from None
    except ValidationError as error:
        raise SettingsError(_faults(path, error)) from None


def _faults(path: Path, error: ValidationError) -> str:
    """The first fault of each setting: where a setting may be of several kinds, each kind has its own complaint."""
    lines: dict[str, str] = {}
    for fault in error.errors():
        parts = [str(part) for part in fault["loc"] if not KIND.search(str(part))]
        message = fault["msg"].removeprefix("Value error, ")
        lines.setdefault(".".join(parts), message[0].lower() + message[1:])
    told = [f"- {where}: {message}." if where else f"- {message}." for where, message in lines.items()]
    return "\n".join([f"{str(path)!r} has {'a fault' if len(told) == 1 else 'faults'}:", *told])


def nested(name: str, value: Any) -> dict[str, Any]:
    """ "a.b" and 1 as {"a": {"b": 1}}."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return dict(value)
