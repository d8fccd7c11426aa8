"""Arrays as pictures: a grid of quantised colours that the style sheet owns, so that both themes show them well."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.nouns import Panel
from attnspec.record.outcome import Picture
from attnspec.report.figures import format_figure

PALETTE_STEPS = 8          # steps of the sequential palette, and of each arm of the diverging one
_MOST_CELLS_ABREAST = 16          # rows and columns that are drawn at most
# up to so many columns the numbers themselves are written into the cells: three such stand abreast
_COLUMNS_WITH_NUMBERS = 6
_CELL_WIDTHS = (14, 46)    # width of a bare cell and of one with its number
_CELL_HEIGHTS = (14, 24)
_INDEX_MARGINS = (26, 14)  # left and top, for the indices

MARKS: Mapping[str, str] = {"x": "masked", "u": "unjudged"}
"""By the record's mark, the class of an entry."""

MARK_MEANINGS: Mapping[str, str] = {
    "worst": "the worst entry", "masked": "masked", "unjudged": "not judged by this clause",
    "nan": "not a finite number"}
"""What the legend says of a class of entries."""


@dataclass(frozen=True, slots=True)
class PictureCell:
    """One entry in a picture: its corner, the CSS class of its colour, the text in it and the text of its tooltip.

    overlay_css: the class of what is drawn over its colour; empty if nothing is.
    """

    x: int
    y: int
    css: str
    text: str
    title: str
    overlay_css: str = ""


@dataclass(frozen=True, slots=True)
class PictureTick:
    """An index beside the cells of a picture: the middle of its cell, and whether it is that of the worst entry."""

    at: int
    index: int
    is_worst: bool = False


@dataclass(frozen=True, slots=True)
class PictureGrid:
    """A picture ready to be drawn. `cropped` says what was left out; `low` and `high` are the ends of the scale.

    legend: the classes of entries that need a word, with it.  says: all of it for who cannot see it.
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
    """Where a number lies among the colours: 0 … LEVELS from `low` to `high`, or from 0 both ways where it diverges."""

    low: float
    high: float
    is_diverging: bool

    def css(self, entry: float) -> str:
        """The class of an entry's colour."""
        if math.isnan(entry):
            return "nan"
        if math.isinf(entry):
            return "inf"
        arm = ("n" if entry < 0 else "p") if self.is_diverging else "s"
        if step := self._step_of(abs(entry) if self.is_diverging else entry):
            return f"{arm}{step}"
        return "z"

    def _step_of(self, entry: float) -> int:
        low = 0.0 if self.is_diverging else self.low
        # halves: no overflow
        share = (entry / 2 - low / 2) / (self.high / 2 - low / 2) if self.high > low else 0.0
        return max(0, min(math.ceil(PALETTE_STEPS * share), PALETTE_STEPS))


@dataclass(frozen=True, slots=True)
class _ShownPart:
    """The part of a picture that is drawn, and what its first entry counts as: in the array, and in the picture."""

    picture: Picture
    entries: tuple[tuple[float | str, ...], ...]
    corner: tuple[int, int]
    skipped: tuple[int, int]

    def mark(self, row: int, column: int) -> str:
        """The class of an entry's mark; empty if it has none."""
        top, left = self.skipped
        line = "".join(self.picture.marks[top + row : top + row + 1])
        return MARKS.get(line[left + column : left + column + 1], "")

    def is_worst(self, row: int, column: int) -> bool:
        """Whether the record calls it the worst entry."""
        return (self.corner[0] + row, self.corner[1] + column) == self.picture.worst

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return _shape_of_entries(self.entries)


def make_grid(picture: Picture, around: tuple[int, int] = (0, 0),
              scale: _Scale | None = None) -> PictureGrid:
    """Lay out one array; a large one is cropped to a window that holds the entry `around`."""
    shown, scale = _crop_picture(picture, around), scale or _scale_of_picture(picture)
    rows, columns = shown.shape
    is_roomy = columns <= _COLUMNS_WITH_NUMBERS
    width, height = _CELL_WIDTHS[is_roomy], _CELL_HEIGHTS[is_roomy]
    cells = tuple(_picture_cells(shown, scale, (width, height)))
    row_at, column_at = picture.worst if len(picture.worst) == len(_INDEX_MARGINS) else (-1, -1)
    return PictureGrid(
        name=picture.name, rows=picture.rows, columns=picture.columns, cells=cells,
        row_ticks=_picture_ticks(shown.corner[0], rows, height, row_at),
        column_ticks=_picture_ticks(shown.corner[1], columns, width, column_at),
        width=_INDEX_MARGINS[0] + columns * width, height=_INDEX_MARGINS[1] + rows * height,
        cell_width=width, cell_height=height, is_diverging=scale.is_diverging,
        low=format_figure(-scale.high if scale.is_diverging else scale.low),
        high=format_figure(scale.high),
        crop_text=_describe_crop(_full_shape(picture), shown.shape),
        legend=_describe_legend(cells),
        says=_describe_picture(shown, scale))


def make_grids(pictures: Sequence[Picture]) -> tuple[PictureGrid, ...]:
    """Draws all pictures of a case, cropped alike: around the largest entry of the difference, where there is one.

    What was expected and what was seen share one scale.
    """
    differences = [picture for picture in pictures if _is_difference(picture)]
    shared = _shared_scale([picture for picture in pictures if picture.panel in (Panel.EXPECTED, Panel.SEEN)])
    return tuple(make_grid(picture, _crop_shape(picture, differences),
                           shared if picture.panel in (Panel.EXPECTED, Panel.SEEN) else None)
                 for picture in pictures if picture.entries)


def fit_pictures(cases: Iterable[Sequence[Picture]], room: int,
                 most: int) -> Iterator[tuple[PictureGrid, ...] | None]:
    """Draws the pictures of each case as long as there is room for so many cells, and none of more than `most`; None
    where they are left out.
    """
    for pictures in cases:
        cells = sum(map(drawn_cells, pictures))
        fits = cells <= min(room, most)
        room -= cells if fits else 0
        yield make_grids(pictures) if fits else None


def drawn_cells(picture: Picture) -> int:
    """How many entries of a picture are drawn, which is what it costs."""
    rows, columns = _shape_of_entries(picture.entries)
    return min(rows, _MOST_CELLS_ABREAST) * min(columns, _MOST_CELLS_ABREAST)


def _crop_picture(picture: Picture, around: tuple[int, int]) -> _ShownPart:
    top, left = (_crop_start(place, length)
                 for place, length in zip(around, _shape_of_entries(picture.entries), strict=True))
    entries = tuple(row[left : left + _MOST_CELLS_ABREAST]
                    for row in picture.entries[top : top + _MOST_CELLS_ABREAST])
    row, column = picture.first if len(picture.first) == len(_INDEX_MARGINS) else (0, 0)
    return _ShownPart(picture, entries, (row + top, column + left), (top, left))


def _crop_shape(picture: Picture, differences: Sequence[Picture]) -> tuple[int, int]:
    alike = [other for other in differences if _shape_of_entries(other.entries) == _shape_of_entries(picture.entries)]
    return _worst_entry(alike[0]) if alike else (0, 0)


def _is_difference(picture: Picture) -> bool:
    """Whether it is said to be; in older records the name says so: `difference`, or `this - that`."""
    return picture.panel is Panel.DIFFERENCE or (
        picture.panel is Panel.BESIDE
        and ("difference" in picture.name.lower() or " - " in picture.name))


def _worst_entry(picture: Picture) -> tuple[int, int]:
    """Row and column of the largest entry; one that is not finite is larger than any other."""
    sizes = {
        (row, column): _magnitude_of(entry) for row, line in enumerate(picture.entries)
        for column, entry in enumerate(line)
    }
    return max(sizes, key=sizes.__getitem__, default=(0, 0))


def _magnitude_of(entry: float | str) -> float:
    value = abs(float(entry))
    return math.inf if math.isnan(value) else value


def _shape_of_entries(entries: Sequence[Sequence[float | str]]) -> tuple[int, int]:
    return len(entries), max((len(row) for row in entries), default=0)


def _full_shape(picture: Picture) -> tuple[int, int]:
    rows, columns = (picture.whole if len(picture.whole) == len(_INDEX_MARGINS)
                     else _shape_of_entries(picture.entries))
    return rows, columns


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
    return [
        _picture_cell(float(entry), shown, scale, (row, column), size)
        for row, line in enumerate(shown.entries) for column, entry in enumerate(line)
    ]


def _picture_cell(entry: float, shown: _ShownPart, scale: _Scale, place: tuple[int, int],
                  size: tuple[int, int]) -> PictureCell:
    (row, column), mark = place, shown.mark(*place)
    is_judged = mark != "unjudged" or shown.picture.panel is not Panel.DIFFERENCE
    is_told = size[0] == _CELL_WIDTHS[1] or not math.isfinite(entry)
    over = [mark] if mark == "masked" or not is_judged else []
    over += ["worst"] if shown.is_worst(row, column) else []
    said = "".join(f", {MARK_MEANINGS[each]}" for each in over)
    return PictureCell(_INDEX_MARGINS[0] + column * size[0], _INDEX_MARGINS[1] + row * size[1],
                       scale.css(entry) if is_judged else "z",
                       _format_entry(entry) if is_told and is_judged else "",
                       f"({shown.corner[0] + row}, {shown.corner[1] + column}) "
                       f"= {format_figure(entry, 6)}{said}",
                       " ".join(over))


def _format_entry(entry: float) -> str:
    """A number as it fits into a cell: of one that needs a power of ten, one digit."""
    text = format_figure(entry, 2)
    return format_figure(entry, 1) if "×" in text else text


def _picture_ticks(first: int, count: int, size: int, worst: int) -> tuple[PictureTick, ...]:
    """The indices that are written, at the middle of their cells: not all where cells are small, that of the worst
    entry in any case, and then not its neighbours.
    """
    step = 1 if count <= _COLUMNS_WITH_NUMBERS else 4
    here = range(first, first + count)
    written = [index for index in here[::step] if step == 1 or worst not in here or abs(index - worst) > 1]
    return tuple(PictureTick((index - first) * size + size // 2, index, index == worst)
                 for index in sorted({*written, *({worst} & set(here))}))


def _describe_legend(cells: Sequence[PictureCell]) -> tuple[tuple[str, str], ...]:
    """Lists the marks among the cells, which are no colour of the scale."""
    met = {name for cell in cells for name in cell.overlay_css.split()} | {
        "nan" for cell in cells if cell.css in ("nan", "inf")}
    return tuple((name, says) for name, says in MARK_MEANINGS.items() if name in met)


def _describe_picture(shown: _ShownPart, scale: _Scale) -> str:
    """The picture in a sentence: its axes, its colours, and what is marked."""
    picture, (rows, columns), (top, left) = shown.picture, shown.shape, shown.corner
    low = -scale.high if scale.is_diverging else scale.low
    worst = (f" The worst entry, outlined, is at {picture.worst[0]}, {picture.worst[1]}."
             if picture.worst[1:] else "")
    return (f"{picture.rows} {top} to {top + rows - 1} down, {picture.columns} {left} to "
            f"{left + columns - 1} across; "
            f"colours from {format_figure(low)} to {format_figure(scale.high)}.{worst}")


def _describe_crop(full: tuple[int, int], drawn: tuple[int, int]) -> str:
    if full == drawn:
        return ""
    return f"{drawn[0]} × {drawn[1]} of {full[0]} × {full[1]} entries"
