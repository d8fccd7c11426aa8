"""Arrays as pictures: a grid of quantised colours that the style sheet owns, so that both themes show them well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnspec.record.outcome import Picture
from attnspec.report.figures import figure

LEVELS = 8          # steps of the sequential palette, and of each arm of the diverging one
_SIDE = 32          # rows and columns that are drawn at most
_ROOMY = 8          # up to so many columns the numbers themselves are written into the cells
_CELL = (14, 46)    # width of a bare cell and of one with its number
_HEIGHT = (14, 24)
_MARGIN = (22, 14)  # left and top, for the indices


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry: its corner, the class of its colour, what is written in it and what a pointer reads."""

    x: int
    y: int
    css: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A picture ready to be drawn. `cropped` says what was left out; `low` and `high` are the ends of the scale."""

    name: str
    rows: str
    columns: str
    cells: tuple[Cell, ...]
    row_ticks: tuple[tuple[int, int], ...]
    column_ticks: tuple[tuple[int, int], ...]
    width: int
    height: int
    cell_width: int
    cell_height: int
    is_diverging: bool
    low: str
    high: str
    cropped: str


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a number lies among the colours: 0 … LEVELS, with a sign where the palette diverges."""

    reach: float
    is_diverging: bool

    def css(self, entry: float) -> str:
        """The class of an entry's colour."""
        if math.isnan(entry):
            return "nan"
        if math.isinf(entry):
            return "inf"
        step = math.ceil(LEVELS * abs(entry) / self.reach) if self.reach else 0
        arm = ("n" if entry < 0 else "p") if self.is_diverging else "s"
        return f"{arm}{min(step, LEVELS)}" if step else "z"


def grid(picture: Picture, around: tuple[int, int] = (0, 0)) -> Grid:
    """Lay out one array; a large one is cropped to a window that holds the entry `around`."""
    top, left = (_start(place, length) for place, length in zip(around, _shape(picture), strict=True))
    shown = [row[left : left + _SIDE] for row in picture.entries[top : top + _SIDE]]
    scale = _scale(picture)
    size = int(bool(shown) and len(shown[0]) <= _ROOMY)
    width, height = _CELL[size], _HEIGHT[size]
    columns = len(shown[0]) if shown else 0
    return Grid(
        name=picture.name, rows=picture.rows, columns=picture.columns,
        cells=tuple(_cells(shown, scale, (top, left), (width, height))),
        row_ticks=_ticks(top, len(shown), height), column_ticks=_ticks(left, columns, width),
        width=_MARGIN[0] + columns * width, height=_MARGIN[1] + len(shown) * height,
        cell_width=width, cell_height=height, is_diverging=scale.is_diverging,
        low=figure(-scale.reach if scale.is_diverging else 0), high=figure(scale.reach),
        cropped=_cropped(_shape(picture), (len(shown), columns)))


def grids(pictures: Sequence[Picture]) -> tuple[Grid, ...]:
    """All pictures of a case, cropped alike: around the largest entry of the difference, where there is one."""
    differences = [picture for picture in pictures if _is_difference(picture)]
    return tuple(grid(picture, _around(picture, differences)) for picture in pictures if picture.entries)


def drawn_cells(picture: Picture) -> int:
    """How many entries of a picture are drawn, which is what it costs."""
    rows, columns = _shape(picture)
    return min(rows, _SIDE) * min(columns, _SIDE)


def _around(picture: Picture, differences: Sequence[Picture]) -> tuple[int, int]:
    alike = [other for other in differences if _shape(other) == _shape(picture)]
    return _worst(alike[0]) if alike else (0, 0)


def _is_difference(picture: Picture) -> bool:
    """Whether the name says so: `difference`, or `this - that`."""
    return "difference" in picture.name.lower() or " - " in picture.name


def _worst(picture: Picture) -> tuple[int, int]:
    """Row and column of the largest entry; one that is not finite is larger than any other."""
    sizes = {
        (row, column): _size(entry) for row, line in enumerate(picture.entries) for column, entry in enumerate(line)
    }
    return max(sizes, key=sizes.__getitem__, default=(0, 0))


def _size(entry: float | str) -> float:
    value = abs(float(entry))
    return math.inf if math.isnan(value) else value


def _shape(picture: Picture) -> tuple[int, int]:
    return len(picture.entries), max((len(row) for row in picture.entries), default=0)


def _start(place: int, length: int) -> int:
    return max(0, min(place - _SIDE // 2, length - _SIDE))


def _scale(picture: Picture) -> _Scale:
    finite = [value for row in picture.entries for value in map(float, row) if math.isfinite(value)]
    signed = _is_difference(picture) or any(value < 0 for value in finite)
    return _Scale(max(map(abs, finite), default=0.0), signed)


def _cells(
    shown: Sequence[Sequence[float | str]], scale: _Scale, corner: tuple[int, int], size: tuple[int, int],
) -> list[Cell]:
    return [
        _cell(float(entry), scale, (row, column), corner, size)
        for row, line in enumerate(shown) for column, entry in enumerate(line)
    ]


def _cell(
    entry: float, scale: _Scale, place: tuple[int, int], corner: tuple[int, int], size: tuple[int, int],
) -> Cell:
    row, column = place
    is_roomy = size[0] == _CELL[1]
    text = figure(entry, 2) if is_roomy or not math.isfinite(entry) else ""
    title = f"({corner[0] + row}, {corner[1] + column}) = {figure(entry, 6)}"
    return Cell(_MARGIN[0] + column * size[0], _MARGIN[1] + row * size[1], scale.css(entry), text, title)


def _ticks(first: int, count: int, size: int) -> tuple[tuple[int, int], ...]:
    """Pairs of a coordinate (the middle of the cell) and the index written there; not all where cells are small."""
    step = 1 if count <= _ROOMY else 4
    return tuple((place * size + size // 2, first + place) for place in range(0, count, step))


def _cropped(full: tuple[int, int], drawn: tuple[int, int]) -> str:
    return "" if full == drawn else f"{drawn[0]} × {drawn[1]} of {full[0]} × {full[1]} entries"
