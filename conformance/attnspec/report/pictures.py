"""Lays out arrays as pictures: grids of colours that the style sheet defines for each theme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import Panel
from attnspec.record.outcome import Picture
from attnspec.report.figures import format_figure

PALETTE_STEPS = 8  # of the sequential palette, and of each arm of the diverging one
_MOST_CELLS_ABREAST = 16  # rows and columns that are drawn at most
_COLUMNS_WITH_NUMBERS = 6  # pictures with at most so many columns have numbers in their cells: three fit side by side
_CELL_WIDTHS = (14, 46)  # of a bare cell and of one with its number; here and below in pixels
_CELL_HEIGHTS = (14, 24)
_INDEX_MARGINS = (26, 14)  # left and top, for the indices

MARKS: Mapping[str, str] = {"x": "masked", "u": "unjudged"}
"""The class of an entry, by its mark in the record."""

MARK_MEANINGS: Mapping[str, str] = {
    "worst": "the worst entry", "masked": "masked", "unjudged": "not judged by this clause",
    "nan": "not a finite number"}
"""What the legend says of a class of entries."""


@dataclass(frozen=True, slots=True)
class PictureCell:
    """One entry of a picture.

    x, y: its upper left corner.  css: the class of its colour.  text: in the cell.  title: its
    tooltip.  overlay_css: the classes of what is drawn over the colour; empty if nothing is.
    """

    x: int
    y: int
    css: str
    text: str
    title: str
    overlay_css: str = ""


@dataclass(frozen=True, slots=True)
class PictureTick:
    """An index at the edge of a picture. at: the middle of its cell.  is_worst: whether the worst
    entry is there.
    """

    at: int
    index: int
    is_worst: bool = False


@dataclass(frozen=True, slots=True)
class PictureGrid:
    """A picture that is ready to be drawn.

    low, high: the ends of the scale.  crop_text: says which part is drawn; empty if all is.
    legend: pairs of a class of entries and its meaning.  says: a description for readers who
    cannot see it.
    """

    name: str
    rows: str
    columns: str
    cells: tuple[PictureCell, ...]
    row_ticks: tuple[PictureTick, ...]
    column_ticks: tuple[PictureTick, ...]
    width: int
    height: int
    cell_width: int
    cell_height: int
    is_diverging: bool
    low: str
    high: str
    crop_text: str
    legend: tuple[tuple[str, str], ...]
    says: str


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps numbers to colours: from `low` to `high`, or from 0 both ways if it diverges."""

    low: float
    high: float
    is_diverging: bool

    @property
    def lower_end(self) -> float:
        """The number at the lower end of the colours."""
        return -self.high if self.is_diverging else self.low

    def css(self, entry: float) -> str:
        """The class of an entry's colour."""
        if math.isnan(entry):
            return "nan"
        if math.isinf(entry):
            return "inf"
        if not self.is_diverging:
            arm, step = "s", self._step_of(entry, self.low)
        else:
            arm, step = "n" if entry < 0 else "p", self._step_of(abs(entry), 0.0)
        return f"{arm}{step}" if step else "z"

    def _step_of(self, entry: float, low: float) -> int:
        if self.high <= low:
            return 0
        # halves, so that differences of the largest numbers do not overflow
        share = (entry / 2 - low / 2) / (self.high / 2 - low / 2)
        return max(0, min(math.ceil(PALETTE_STEPS * share), PALETTE_STEPS))


@dataclass(frozen=True, slots=True)
class _ShownPart:
    """The part of a picture that is drawn. corner: the indices of its first entry in the array.
    skipped: the rows and columns of the picture before it.
    """

    picture: Picture
    entries: tuple[tuple[float | str, ...], ...]
    corner: tuple[int, int]
    skipped: tuple[int, int]

    def mark(self, row: int, column: int) -> str:
        """The class of an entry's mark; empty if it has none."""
        row, column = row + self.skipped[0], column + self.skipped[1]
        marks = self.picture.marks
        if row < len(marks) and column < len(marks[row]):
            return MARKS.get(marks[row][column], "")
        return ""

    def is_worst(self, row: int, column: int) -> bool:
        """Whether the record calls it the worst entry."""
        return (self.corner[0] + row, self.corner[1] + column) == self.picture.worst

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return _shape_of_entries(self.entries)


def make_grid(picture: Picture, around: tuple[int, int] = (0, 0),
              scale: _Scale | None = None) -> PictureGrid:
    """Lays out one array. A large one is cropped to a window about the entry `around`."""
    shown, scale = _crop_picture(picture, around), scale or _scale_of_picture(picture)
    rows, columns = shown.shape
    has_numbers = columns <= _COLUMNS_WITH_NUMBERS
    width, height = _CELL_WIDTHS[has_numbers], _CELL_HEIGHTS[has_numbers]
    cells = tuple(_picture_cells(shown, scale, (width, height)))
    worst_row, worst_column = picture.worst if len(picture.worst) == 2 else (-1, -1)
    return PictureGrid(
        name=picture.name, rows=picture.rows, columns=picture.columns, cells=cells,
        row_ticks=_picture_ticks(shown.corner[0], rows, height, worst_row),
        column_ticks=_picture_ticks(shown.corner[1], columns, width, worst_column),
        width=_INDEX_MARGINS[0] + columns * width, height=_INDEX_MARGINS[1] + rows * height,
        cell_width=width, cell_height=height, is_diverging=scale.is_diverging,
        low=format_figure(scale.lower_end), high=format_figure(scale.high),
        crop_text=_describe_crop(_full_shape(picture), shown.shape),
        legend=_describe_legend(cells), says=_describe_picture(shown, scale))


def make_grids(pictures: Sequence[Picture]) -> tuple[PictureGrid, ...]:
    """Lays out all pictures of a case, all cropped about the largest difference. What was expected
    and what was seen share one scale.
    """
    differences = [picture for picture in pictures if _is_difference(picture)]
    compared = [picture for picture in pictures if picture.panel in (Panel.EXPECTED, Panel.SEEN)]
    shared = _shared_scale(compared)
    return tuple(make_grid(picture, _entry_to_show(picture, differences),
                           shared if picture in compared else None)
                 for picture in pictures if picture.entries)


def fit_pictures(cases: Iterable[Sequence[Picture]], room: int,
                 most: int) -> Iterator[tuple[PictureGrid, ...] | None]:
    """Lays out the pictures of each case while there is room; None where they are left out. room:
    how many cells all cases may have.  most: how many one case may have.
    """
    for pictures in cases:
        cells = sum(map(drawn_cells, pictures))
        fits = cells <= min(room, most)
        room -= cells if fits else 0
        yield make_grids(pictures) if fits else None


def drawn_cells(picture: Picture) -> int:
    """How many entries of a picture are drawn."""
    rows, columns = _shape_of_entries(picture.entries)
    return min(rows, _MOST_CELLS_ABREAST) * min(columns, _MOST_CELLS_ABREAST)


def _crop_picture(picture: Picture, around: tuple[int, int]) -> _ShownPart:
    top, left = (_crop_start(place, length)
                 for place, length in zip(around, _shape_of_entries(picture.entries), strict=True))
    entries = tuple(row[left : left + _MOST_CELLS_ABREAST]
                    for row in picture.entries[top : top + _MOST_CELLS_ABREAST])
    row, column = picture.first if len(picture.first) == 2 else (0, 0)
    return _ShownPart(picture, entries, (row + top, column + left), (top, left))


def _entry_to_show(picture: Picture, differences: Sequence[Picture]) -> tuple[int, int]:
    """The place of the largest difference in a picture of this shape, else the first entry."""
    shape = _shape_of_entries(picture.entries)
    for other in differences:
        if _shape_of_entries(other.entries) == shape:
            return _worst_entry(other)
    return (0, 0)


def _is_difference(picture: Picture) -> bool:
    """Whether a picture shows a difference.

    In older records the name says so: `difference`, or `this - that`.
    """
    if picture.panel is Panel.BESIDE:
        return "difference" in picture.name.lower() or " - " in picture.name
    return picture.panel is Panel.DIFFERENCE


def _worst_entry(picture: Picture) -> tuple[int, int]:
    """Row and column of the largest entry; one that is not finite is the largest."""
    sizes = {(row, column): _magnitude_of(entry)
             for row, line in enumerate(picture.entries) for column, entry in enumerate(line)}
    return max(sizes, key=sizes.__getitem__, default=(0, 0))


def _magnitude_of(entry: float | str) -> float:
    value = abs(float(entry))
    return math.inf if math.isnan(value) else value


def _shape_of_entries(entries: Sequence[Sequence[float | str]]) -> tuple[int, int]:
    return len(entries), max(map(len, entries), default=0)


def _full_shape(picture: Picture) -> tuple[int, int]:
    if len(picture.whole) == 2:
        rows, columns = picture.whole
        return rows, columns
    return _shape_of_entries(picture.entries)


def _crop_start(place: int, length: int) -> int:
    return max(0, min(place - _MOST_CELLS_ABREAST // 2, length - _MOST_CELLS_ABREAST))


def _finite_entries(pictures: Iterable[Picture]) -> list[float]:
    return [value for picture in pictures for row in picture.entries for value in map(float, row)
            if math.isfinite(value)]


def _scale_of_picture(picture: Picture) -> _Scale:
    finite = _finite_entries([picture])
    signed = _is_difference(picture) or any(value < 0 for value in finite)
    return _Scale(0.0, max(map(abs, finite), default=0.0), signed)


def _shared_scale(pictures: Sequence[Picture]) -> _Scale:
    """Makes one scale from the least to the greatest entry of all pictures."""
    finite = _finite_entries(pictures)
    return _Scale(min(finite, default=0.0), max(finite, default=0.0), False)


def _picture_cells(shown: _ShownPart, scale: _Scale, size: tuple[int, int]) -> list[PictureCell]:
    return [_picture_cell(float(entry), shown, scale, (row, column), size)
            for row, line in enumerate(shown.entries) for column, entry in enumerate(line)]


def _picture_cell(entry: float, shown: _ShownPart, scale: _Scale, place: tuple[int, int],
                  size: tuple[int, int]) -> PictureCell:
    row, column = place
    width, height = size
    mark = shown.mark(row, column)
    is_judged = mark != "unjudged" or shown.picture.panel is not Panel.DIFFERENCE
    overlays = []
    if mark == "masked" or not is_judged:
        overlays.append(mark)
    if shown.is_worst(row, column):
        overlays.append("worst")
    css, text = "z", ""
    if is_judged:
        css = scale.css(entry)
        if width == _CELL_WIDTHS[1] or not math.isfinite(entry):
            text = _format_entry(entry)
    meanings = "".join(f", {MARK_MEANINGS[each]}" for each in overlays)
    index = f"({shown.corner[0] + row}, {shown.corner[1] + column})"
    return PictureCell(_INDEX_MARGINS[0] + column * width, _INDEX_MARGINS[1] + row * height, css, text,
                       f"{index} = {format_figure(entry, 6)}{meanings}", " ".join(overlays))


def _format_entry(entry: float) -> str:
    """Writes a number with one digit if it needs a power of ten, else with two."""
    text = format_figure(entry, 2)
    return format_figure(entry, 1) if "×" in text else text


def _picture_ticks(first: int, count: int, size: int, worst: int) -> tuple[PictureTick, ...]:
    """Places the indices: all of them if cells are wide, else every fourth. That of the worst
    entry is always there; beside it there is no other among narrow cells.
    """
    step = 1 if count <= _COLUMNS_WITH_NUMBERS else 4
    indices = range(first, first + count)
    written = set(indices[::step])
    if worst in indices:
        if step > 1:
            written -= {worst - 1, worst + 1}
        written.add(worst)
    return tuple(PictureTick((index - first) * size + size // 2, index, index == worst)
                 for index in sorted(written))


def _describe_legend(cells: Sequence[PictureCell]) -> tuple[tuple[str, str], ...]:
    """Lists the marks among the cells that no colour of the scale shows."""
    marks = {name for cell in cells for name in cell.overlay_css.split()}
    if any(cell.css in ("nan", "inf") for cell in cells):
        marks.add("nan")
    return tuple((name, says) for name, says in MARK_MEANINGS.items() if name in marks)


def _describe_picture(shown: _ShownPart, scale: _Scale) -> str:
    """Describes a picture in a sentence: its axes, its colours, and what is marked."""
    picture, (rows, columns), (top, left) = shown.picture, shown.shape, shown.corner
    says = (f"{picture.rows} {top} to {top + rows - 1} down, {picture.columns} {left} to {left + columns - 1} across; "
            f"colours from {format_figure(scale.lower_end)} to {format_figure(scale.high)}.")
    if picture.worst[1:]:
        says += f" The worst entry, outlined, is at {picture.worst[0]}, {picture.worst[1]}."
    return says


def _describe_crop(full: tuple[int, int], drawn: tuple[int, int]) -> str:
    if full == drawn:
        return ""
    return f"{drawn[0]} × {drawn[1]} of {full[0]} × {full[1]} entries"
