"""What a record keeps of a failure: the case, and pictures of what was expected and seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.effort import EFFORTS
from attnspec.core.nouns import Effort, Level, Panel
from attnspec.core.sizes import spell_lengths
from attnspec.diagnosis.boundaries import describe_ranges
from attnspec.diagnosis.whereabouts import FailurePlace
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, Recipe, Sizes, count_logits, count_work
from attnspec.record.outcome import Evidence, Picture
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer
from attnspec.trials.judging import Failure, Violated
from attnspec.trials.trial import Trial, describe_case
from attnspec.vocabulary.observables import read_definition, visible
from attnspec.vocabulary.scene import Compared, NoClaim, OutsideLimits, Scene, Side

PICTURE_LENGTH = 16
"""Rows and columns of a picture: a part around the worst entry."""

MAX_DRAWN_LOGITS = 2**23
"""Logits B·H·T·S up to which masks are drawn: they are worked out for it, all of them."""

AXIS_NAMES: Mapping[str, str] = {"B": "batch", "H": "head", "T": "query", "S": "key",
                                 "D": "feature", "Dv": "feature", "M": "model feature",
                                 "In": "row", "Out": "column"}
"""What one entry along an axis is called."""

ROOMY_CAPTION = "Drawn at {}, where more is seen than in the case above. {}"
"""How the caption begins of pictures that are not of the case that is reported."""

MASKED, UNJUDGED, PLAIN = "x", "u", "."
"""The marks of a picture's entries."""

ROWS, COLUMNS = -2, -1
"""The axes of an array that a picture shows."""


@dataclass(frozen=True, slots=True)
class DrawnPictures:
    """Pictures, and what they show in words; both empty where nothing can be drawn."""

    caption: str = ""
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Crop:
    """The part of the last two axes that is drawn."""

    rows: slice
    columns: slice

    @classmethod
    def crop_around(cls, at: tuple[int, int], shape: tuple[int, ...]) -> Crop:
        """Crops as many rows and columns as a picture holds."""
        rows, columns = (_span_around(place, length)
                         for place, length in zip(at, shape[ROWS:], strict=True))
        return cls(rows, columns)

    def crop_array(self, array: Array) -> Array:
        """The part of an array (rows, columns) that the crop shows."""
        return array[self.rows, self.columns]


def draw_case(trial: Trial, recipe: Recipe) -> DrawnPictures:
    """Draws a failing case. It is put again, to show what its worst relation compares."""
    try:
        scene = trial.scene(recipe)
        compared = trial.compared_arrays(scene)
        if compared is None or len(compared.axes) < len((ROWS,
                                                         COLUMNS)) or not compared.seen.array.size:
            return DrawnPictures()
        return DrawnPictures(_write_caption(compared),
                             (*_draw_panels(scene, compared),
                              *_draw_masked_weights(scene, compared)))
    # no reason to lose the verdict
    except (NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer):
        return DrawnPictures()


def draw_with_room(trial: Trial, case: Recipe | None, reported: Recipe) -> DrawnPictures:
    """The pictures of the case of which whereabouts tell which entries are wrong; none if it shows
    no more entries.

    It is not put to variants that compile: they would compile for its sizes alone.
    """
    if case is None or _count_entries(case.sizes) <= _count_entries(reported.sizes):
        return DrawnPictures()
    drawn = draw_case(replace(trial, compiles=False), case)
    if drawn.pictures:
        return replace(drawn, caption=ROOMY_CAPTION.format(case.sizes, drawn.caption))
    return drawn


def _count_entries(sizes: Sizes) -> int:
    """How many entries weights and output have."""
    return sizes.B * sizes.H * sizes.T * (sizes.S + sizes.Dv)


def _write_caption(compared: Compared) -> str:
    """`Output, head 3. The worst entry, outlined, is query 5, feature 2. Wrong: rows 5 to 9.`"""
    index = _worst_entry(compared)
    named = [f"{AXIS_NAMES[axis]} {place}"
             for axis, place in zip(compared.axes, index, strict=True)]
    where = ", ".join([compared.seen.name, *named[:ROWS]])
    worst = f"The worst entry, outlined, is {', '.join(named[ROWS:])}."
    return f"{where[0].upper()}{where[1:]}. {worst}{_describe_region(compared)}"


def _describe_region(compared: Compared) -> str:
    """Which entries are wrong; empty for a single later row, whose index alone would mislead."""
    if not compared.wrong.any() or compared.first_row:
        return ""
    told = describe_ranges(compared.wrong, compared.axes)
    return f" Wrong: {told}{' that is compared' if compared.wrong.all() else ''}."


def _worst_entry(compared: Compared) -> tuple[int, ...]:
    """The worst entry, as the array counts that the compared rows are taken from."""
    index = compared.index
    return (*index[:ROWS], index[ROWS] + compared.first_row, index[COLUMNS])


def _draw_panels(scene: Scene, compared: Compared) -> Iterator[Picture]:
    """What was expected, what was seen, and their difference, around the worst entry."""
    seen, expected = compared.seen, compared.expected
    with np.errstate(all="ignore"):
        same_nan = np.isnan(seen.array) & np.isnan(expected.array) & ~compared.wrong
        difference = np.where((seen.array == expected.array) | same_nan, 0,
                              seen.array - expected.array)
    less = replace(expected, name="seen − expected", array=difference)
    for panel, side in ((Panel.EXPECTED, expected), (Panel.SEEN, seen), (Panel.DIFFERENCE, less)):
        yield _draw_panel(compared, panel, side,
                          _mark_entries(compared, _find_hidden(scene, compared, side.run)))


def _draw_panel(compared: Compared, panel: Panel, side: Side, marks: Array) -> Picture:
    """The rows and columns around the worst entry. marks: of the shape of what is compared."""
    at, (row, column) = compared.index[:ROWS], compared.index[ROWS:]
    rows, columns = (AXIS_NAMES[axis] for axis in compared.axes[ROWS:])
    crop = Crop.crop_around((row, column), side.array.shape)
    drawn = _draw_picture(f"{panel.value}: {side.name}", (rows, columns), side.array[at],
                          marks[at], crop)
    drawn = replace(drawn, panel=panel, worst=(row + compared.first_row, column))
    if not compared.first_row:
        return drawn
    return replace(drawn, first=(drawn.first[0] + compared.first_row, drawn.first[1]), whole=())


def _draw_picture(name: str, axes: tuple[str, str], array: Array, marks: Array,
                  crop: Crop) -> Picture:
    """The part of an array (rows, columns) that a crop shows; marks: one character an entry."""
    entries = tuple(tuple(_plain_number(entry) for entry in line)
                    for line in crop.crop_array(array))
    marked = tuple("".join(line) for line in crop.crop_array(marks))
    first = (crop.rows.start, crop.columns.start)
    return Picture(name, *axes, entries, first=first, whole=array.shape,
                   marks=marked if any(line.strip(PLAIN) for line in marked) else ())


def _mark_entries(compared: Compared, hidden: Array | None) -> Array:
    """Marks masked and unjudged entries, in the shape of what is compared."""
    marks = np.where(compared.claimed, PLAIN, UNJUDGED)
    if hidden is None:
        return marks
    return np.where(hidden, MASKED, marks)


def _find_hidden(scene: Scene, compared: Compared, run: str) -> Array | None:
    """Which entries are masked, in the shape compared; None unless it is query by key."""
    if compared.axes[ROWS:] != ("T", "S") or not _is_drawable(scene, run):
        return None
    shown = visible(scene, run)
    shown = shown if "H" in compared.axes else np.asarray(shown.any(axis=1))
    rows = slice(compared.first_row, compared.first_row + compared.claimed.shape[ROWS])
    hidden = ~shown[..., rows, :]
    if hidden.shape == compared.claimed.shape:
        return hidden
    return None


def _is_drawable(scene: Scene, run: str) -> bool:
    return all(count_logits(part.sizes) <= MAX_DRAWN_LOGITS and not isinstance(part, RotaryProblem)
               for part in scene.runs[run].parts)


def _draw_masked_weights(scene: Scene, compared: Compared) -> Iterator[Picture]:
    """The weights by definition, with the mask, where hidden keys matter and none is drawn yet."""
    run, axes = compared.seen.run, compared.axes
    is_drawn = axes[COLUMNS] == "S" or axes[:1] != ("B",) or "T" not in axes
    if is_drawn or not _is_drawable(scene, run):
        return
    shown = visible(scene, run)
    if shown.all():
        return
    weights = read_definition(scene, run, "weights", ("B", "H", "T", "S"),
                              lambda expected: expected.weights)
    index = dict(zip(axes, _worst_entry(compared), strict=True))
    batch, head, row = index["B"], index.get("H"), index["T"]
    whose, mixed = (f"of head {head}",
                    slice(head, head + 1)) if head is not None else ("on average", slice(None))
    seen = np.asarray(shown[batch, mixed].any(axis=0))
    last = int(np.flatnonzero(seen[row])[-1]) if seen[row].any() else 0
    marks = np.where(seen, PLAIN, MASKED)
    yield _draw_picture(f"weights by definition {whose}, with the mask",
                        (AXIS_NAMES["T"], AXIS_NAMES["S"]), weights[batch, mixed].mean(axis=0),
                        marks, Crop.crop_around((row, last), seen.shape))


def _span_around(place: int, length: int) -> slice:
    """As much of an axis as a picture holds, with this place in its middle where there is room."""
    start = max(0, min(place - PICTURE_LENGTH // 2, length - PICTURE_LENGTH))
    return slice(start, min(length, start + PICTURE_LENGTH))


def _plain_number(entry: np.generic) -> float | str:
    number = float(entry)
    if np.isfinite(number):
        return float(f"{number:.6g}")
    if np.isnan(number):
        return "nan"
    if number > 0:
        return "inf"
    return "-inf"


def make_evidence(trial: Trial, failure: Failure, last: Recipe | None) -> Evidence:
    """The failing case with its pictures, or how the call ended. last: the case, if any."""
    if isinstance(failure, Violated):
        drawn = draw_case(trial, failure.recipe)
        return Evidence(failure.measured.sentence, describe_case(trial, failure.recipe),
                        failure.recipe.text, failure.measured, drawn.pictures,
                        caption=drawn.caption, calls=calls_at_other_sizes(trial, failure.recipe))
    told = (describe_case(trial, last), last.text) if last else ("", "")
    stderr = failure.stderr if isinstance(failure, SubjectDied) else ""
    return Evidence(str(failure), *told, traceback=failure.traceback, stderr=stderr,
                    calls=calls_at_other_sizes(trial, last) if last else ())


def calls_at_other_sizes(trial: Trial, recipe: Recipe) -> tuple[str, ...]:
    """The sizes of the calls that a clause makes of a case, where some differ from the case's."""
    try:
        scene, own = trial.scene(recipe), trial.evaluator.problem(recipe, trial.check.domain.poses)
    except NoClaim:  # a case that is drawn too small for what the clause makes of it
        return ()
    sizes = {problem.sizes: None for run in scene.runs.values()
             for problem in (*run.before, *run.parts)}
    if sizes.keys() - {own.sizes}:
        return tuple(spell_lengths(each.by_axis) for each in sizes)
    return ()


def add_place(trial: Trial, evidence: Evidence, place: FailurePlace) -> Evidence:
    """The evidence with where it fails, drawn where there is room."""
    located = replace(evidence, begins=place.begins, wrong=place.wrong)
    try:
        drawn = draw_with_room(trial, place.case, Recipe.parse(evidence.recipe))
    except Exception:  # a help, as the diagnosis is
        return located
    if drawn.pictures:
        return replace(located, pictures=drawn.pictures, caption=drawn.caption)
    return located


def is_worth_explaining(trial: Trial, evidence: Evidence, *, is_further: bool) -> bool:
    """Whether faults are looked for that are like a failure. is_further: at a dtype at which most
    clauses are sampled.

    What may be is no fault, a recommendation is explained at the main dtype, and of a large case
    each fault would cost as much as the case.
    """
    level = trial.check.clause.level
    is_minor = level is Level.MAY or (level is Level.SHOULD and is_further)
    return not is_minor and count_work(
        Recipe.parse(evidence.recipe).sizes) <= EFFORTS[Effort.THOROUGH].largest
