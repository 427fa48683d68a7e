"""docs/service.md lists the settings as the code describes them."""

from pathlib import Path

from pydantic import BaseModel

from evenkeel.service.config import ServiceConfig

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def settings() -> list[str]:
    """Return the rows of the page's table, from the config."""
    rows = []
    for table in ("input", "batches", "checkpoints", "limits"):
        kind = ServiceConfig.model_fields[table].annotation
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        for name, field in kind.model_fields.items():
            numbers = field.default is not None and not isinstance(field.default, bool)
            default = f"{field.default:,}" if numbers else str(field.default).lower()
            rows.append(f"| `{table}.{name}` | {default} | {field.description} |")
    return rows


def test_every_setting_is_on_the_page() -> None:
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [line for line in written if "." in line.split("|")[1]] == settings()
