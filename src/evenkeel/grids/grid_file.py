"""Grids of the user's own: a TOML file with base configs, settings to vary, and seeds."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, StrictInt, ValidationError

from evenkeel.config.composition import merged, nested
from evenkeel.config.loading import named, read_toml
from evenkeel.errors import SettingsError, counted, nearest
from evenkeel.experiment.config import Config, load_config


def _is_setting(name: str) -> str:
    if name == "seed":
        raise ValueError("to repeat runs, write seeds = ... next to the blocks or the space")
    if not all(name.split(".")):
        raise ValueError(f"{name!r} is not the name of a setting; write part.setting")
    return name


Name = Annotated[str, AfterValidator(_is_setting)]
Distinct = Annotated[list[Annotated[NonNegativeInt, Field(strict=True)]], Field(min_length=1)]


class GridModel(BaseModel):
    model_config: ClassVar[ConfigDict] = {"extra": "forbid", "frozen": True}


File = TypeVar("File", bound=GridModel)


class Block(GridModel):
    """A base config with every combination of the settings that vary."""

    base: str
    """A config file (next to the grid file, or anywhere) or a preset"""
    set: dict[Name, Any] = {}
    """Settings of all runs, as tables or as "part.setting" """
    vary: dict[Name, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values by "part.setting", or whole tables by "part" """


class GridFile(GridModel):
    seeds: Annotated[StrictInt, Field(gt=0)] | Distinct = 1
    """Number of seeds, starting at 0, or a list of seeds"""
    blocks: Annotated[list[Block], Field(min_length=1)]

    def all_seeds(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(dict.fromkeys(self.seeds))


def read_grid(path: Path) -> list[Config]:
    """Return all runs of a grid, those of the first seed first. All errors in all combinations are reported at once.

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
    grid = read_file(path, GridFile)
    configs, errors = list[Config](), dict[str, list[str]]()
    for block in grid.blocks:
        for combination, settings in _combinations(block, path):
            try:
                configs.append(load_config(settings))
            except SettingsError as error:
                errors.setdefault(str(error), []).append(combination or "the base alone")
    if errors:
        raise SettingsError("\n".join(_error_line(error, affected) for error, affected in errors.items()))
    return [config.model_copy(update={"seed": seed}) for seed in grid.all_seeds() for config in configs]


def _error_line(error: str, combinations: list[str]) -> str:
    """Return one line for an error, however many combinations have it."""
    others = len(combinations) - 1
    more = f" and {counted(others, 'other combination')}" if others else ""
    return f"With {combinations[0]}{more}: {error}"


def _combinations(block: Block, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each combination as text for people and as a config that extends the base."""
    base, fixed = base_of(block.base, path), nested(block.set.items())
    for values in itertools.product(*block.vary.values()):
        varied = list(zip(block.vary, values, strict=True))
        text = ", ".join(f"{name} = {value!r}" for name, value in varied)
        yield text, {"extends": base, **merged(fixed, nested(varied))}


def base_of(name: str, path: Path) -> str:
    """Return a config next to `path`, with or without its suffix, or else the name itself for `load_config`."""
    nearby = [each for each in named(name, path.parent) if each.resolve() != path.resolve()]
    return str(nearby[0].resolve()) if nearby else name


KIND = re.compile(r"[\[\]()]|^(int|float|list|Range|constrained)")  # what pydantic adds where several types are allowed


def read_file(path: Path, kind: type[File]) -> File:
    """Read a file that describes runs; raise SettingsError for anything that is wrong with it."""
    try:
        return kind.model_validate(read_toml(path))
    except ValidationError as error:
        raise SettingsError(_error_list(path, error, kind)) from None


def _error_list(path: Path, error: ValidationError, kind: type[GridModel]) -> str:
    """Return one error of each setting: where several types are allowed, each type has an error of its own."""
    lines: dict[str, str] = {}
    for each in sorted(error.errors(), key=lambda each: each["type"].endswith("_type")):  # the others say more
        where = ".".join(str(part) for part in each["loc"] if not KIND.search(str(part)))
        if not any(f"{known}.".startswith(f"{where}.") for known in lines):
            lines[where] = _sentence(where, each, kind)
    listed = [f"- {line}" for line in lines.values()]
    return "\n".join([f"{str(path)!r} has {'an error' if len(listed) == 1 else 'errors'}:", *listed])


def _sentence(where: str, error: Any, kind: type[GridModel]) -> str:
    if error["type"] == "missing":
        return f"{where} is missing."
    if error["type"] == "extra_forbidden":
        *above, name = error["loc"]
        inner = " ".join(str(part) for part in above if KIND.search(str(part)))  # has the name of the table's type
        tables = [each for each in GridModel.__subclasses__() if each.__name__ in inner]
        allowed = (*tables, Block if above else kind)[0].model_fields
        return f"{where} is unknown; choose from {', '.join(allowed)}.{nearest(name, allowed)}"
    if error["type"] == "model_type":
        return f"{where} = {error['input']!r} is not a table."
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message[0].lower()}{message[1:]}.".removeprefix(": ")
