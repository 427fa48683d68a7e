"""Heat maps, which are written by hand: colours, names, scales and numbers."""

import base64
import io
import re
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from evenkeel.report.heat_maps import MOST_PIXELS, heat_map
from evenkeel.report.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"


def _map(values: Any, **how: Any) -> Picture:
    table = np.array(values, dtype=np.float64)
    rows, columns = ([str(place) for place in range(count)] for count in table.shape)
    return heat_map(table, **({"rows": rows, "columns": columns, "xlabel": "across", "ylabel": "down"} | how))


def _pixels(picture: Picture) -> Any:
    """Return the colours of the cells, as a browser reads them from the file."""
    image = next(ET.fromstring(picture.svg).iter(f"{SVG}image"))
    data = base64.b64decode(image.attrib["href"].partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def _texts(picture: Picture) -> dict[str, tuple[float, float, str]]:
    """Return where each text is, and its style."""
    found = ET.fromstring(picture.svg).iter(f"{SVG}text")
    return {str(each.text): (float(each.attrib["x"]), float(each.attrib["y"]), each.attrib["style"]) for each in found}


def _colour(name: str, shade: float) -> list[int]:
    return [round(255 * part) for part in mpl.colormaps[name](round(255 * shade))[:3]]


@pytest.mark.parametrize(
    ("how", "name", "shades"),
    [
        ({}, "Blues", [0, 0.25, 1]),
        ({"gamma": 0.5}, "Blues", [0, 0.5, 1]),
        ({"highest": None}, "Blues", [0, 0.25, 1]),
        ({"highest": 50.0}, "Blues", [0, 0.5, 1]),  # more than the highest has its colour
        ({"centre": np.array([50.0, 25.0, 50.0]), "highest": 50.0}, "RdBu_r", [0, 0.5, 1]),
    ],
    ids=["plain", "small-values", "no-limit", "clipped", "around"],
)
def test_cells_have_the_colours_of_their_values(how: Any, name: str, shades: list[float]) -> None:
    assert _pixels(_map([[0.0, 25.0, 100.0]], **how))[0] == pytest.approx(
        np.array([_colour(name, shade) for shade in shades]), abs=3
    )


def test_rows_go_down_and_columns_to_the_right() -> None:
    dark = _pixels(_map([[100, 0, 0], [0, 0, 100]])).sum(axis=2) < 300
    assert dark.tolist() == [[True, False, False], [False, False, True]]
    texts = _texts(_map(np.zeros((2, 3)), rows=["top", "bottom"], columns=["left", "middle", "right"]))
    assert texts["top"][1] < texts["bottom"][1]
    assert texts["left"][0] < texts["middle"][0] < texts["right"][0]


def test_a_large_matrix_is_scaled_down_by_means() -> None:
    values = np.zeros((2 * MOST_PIXELS, 3))
    values[0::2] = 100.0
    pixels = _pixels(_map(values))
    assert pixels.shape[:2] == (MOST_PIXELS, 3)
    assert pixels.reshape(-1, 3) == pytest.approx(np.array([_colour("Blues", 0.5)] * 3 * MOST_PIXELS), abs=3)
    assert _pixels(_map(np.zeros((MOST_PIXELS, 3)))).shape[:2] == (MOST_PIXELS, 3)


def test_numbers_in_cells_are_readable_on_their_colours() -> None:
    texts = _texts(_map([[7.4, 95.6]], numbers=True))
    assert texts["7"][2].endswith("fill: #010101")
    assert texts["96"][2].endswith("fill: #ffffff")


def test_the_scale_has_round_numbers_at_their_colours() -> None:
    picture = _map([[0.0, 100.0]], gamma=0.5)
    texts = _texts(picture)
    _, top, right, bottom = picture.values["box"]
    scale = {float(text): y for text, (x, y, _) in texts.items() if x > right and text.isdigit()}
    assert set(scale) == {0.0, 20.0, 40.0, 60.0, 80.0, 100.0}
    middle = (scale[20.0] + scale[40.0]) / 2  # 30 would be a little above
    assert (bottom - middle) / (bottom - top) == pytest.approx(0.3**0.5, abs=0.04)


@pytest.mark.parametrize("count", [5, 40, 200])
def test_as_many_names_as_fit(count: int) -> None:
    texts = _texts(_map(np.zeros((count, count)), rows=[f"r{k}" for k in range(count)]))
    down = sorted(y for text, (_, y, _) in texts.items() if re.fullmatch(r"r\d+", text))
    assert 5 <= len(down) <= 42
    assert min(np.diff(down)) > 5


def test_cells_are_short_where_they_are_many() -> None:
    assert _map([[0.0, 1.26], [100.0, 3.0]]).values["cells"] == [[0, 1.3], [100, 3]]
    many = _map(np.full((101, 100), 1.26)).values["cells"]
    assert {cell for row in many for cell in row} == {1}
