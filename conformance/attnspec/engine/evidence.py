"""Makes what a record keeps of a failure: the case, and pictures of what was expected and seen."""

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
"""Logits B·H·T·S up to which masks are drawn: all of them are computed for it."""

AXIS_NAMES: Mapping[str, str] = {"B": "batch", "H": "head", "T": "query", "S": "key",
                                 "D": "feature", "Dv": "feature", "M": "model feature",
                                 "In": "row", "Out": "column"}
"""What one entry along an axis is called."""

ROOMY_CAPTION = "Drawn at {}, where more is seen than in the case above. {}"
"""The beginning of a caption whose pictures are not of the reported case."""

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
    def crop_around(cls, place: tuple[int, int], shape: tuple[int, ...]) -> Crop:
        """Crops as many rows and columns as a picture holds."""
        row, column = place
        return cls(_span_around(row, shape[ROWS]), _span_around(column, shape[COLUMNS]))

    def crop_array(self, array: Array) -> Array:
        """The part of an array (T,S), or of other axes, that the crop shows."""
        return array[self.rows, self.columns]


def draw_case(trial: Trial, recipe: Recipe) -> DrawnPictures:
    """Draws a failing case. It is put again, to show what its worst relation compares."""
    try:
        scene = trial.scene(recipe)
        comparison = trial.compared_arrays(scene)
        if comparison is None or len(comparison.axes) < 2 or not comparison.seen.array.size:
            return DrawnPictures()
        pictures = (*_draw_panels(scene, comparison), *_draw_masked_weights(scene, comparison))
        return DrawnPictures(_write_caption(comparison), pictures)
    # no reason to lose the verdict
    except (NoClaim, OutsideLimits, SubjectRaised, SubjectDied, UnusableAnswer):
        return DrawnPictures()


def draw_with_room(trial: Trial, case: Recipe | None, reported_case: Recipe) -> DrawnPictures:
    """Draws a case with room, whose wrong entries are named; nothing if it shows no more entries.

    It is not put to variants that compile: they would compile for its sizes alone.
    """
    if case is None or _count_entries(case.sizes) <= _count_entries(reported_case.sizes):
        return DrawnPictures()
    pictures = draw_case(replace(trial, compiles=False), case)
    if pictures.pictures:
        return replace(pictures, caption=ROOMY_CAPTION.format(case.sizes, pictures.caption))
    return pictures


def _count_entries(sizes: Sizes) -> int:
    """How many entries weights and output have."""
    return sizes.B * sizes.H * sizes.T * (sizes.S + sizes.Dv)


def _write_caption(comparison: Compared) -> str:
    """`Output, head 3. The worst entry, outlined, is query 5, feature 2. Wrong: rows 5 to 9.`"""
    index = _worst_entry(comparison)
    places = [f"{AXIS_NAMES[axis]} {place}"
             for axis, place in zip(comparison.axes, index, strict=True)]
    where = ", ".join([comparison.seen.name, *places[:ROWS]])
    worst = f"The worst entry, outlined, is {', '.join(places[ROWS:])}."
    return f"{where[0].upper()}{where[1:]}. {worst}{_describe_region(comparison)}"


def _describe_region(comparison: Compared) -> str:
    """Which entries are wrong; empty for a single later row, whose index alone would mislead."""
    if not comparison.wrong.any() or comparison.first_row:
        return ""
    ranges = describe_ranges(comparison.wrong, comparison.axes)
    if comparison.wrong.all():
        ranges += " that is compared"
    return f" Wrong: {ranges}."


def _worst_entry(comparison: Compared) -> tuple[int, ...]:
    """The index of the worst entry in the array from which the compared rows are taken."""
    index = comparison.index
    return (*index[:ROWS], index[ROWS] + comparison.first_row, index[COLUMNS])


def _draw_panels(scene: Scene, comparison: Compared) -> Iterator[Picture]:
    """What was expected, what was seen, and their difference, around the worst entry."""
    seen, expected = comparison.seen, comparison.expected
    with np.errstate(all="ignore"):
        same_nan = np.isnan(seen.array) & np.isnan(expected.array) & ~comparison.wrong
        difference = np.where((seen.array == expected.array) | same_nan, 0,
                              seen.array - expected.array)
    less = replace(expected, name="seen − expected", array=difference)
    for panel, side in ((Panel.EXPECTED, expected), (Panel.SEEN, seen), (Panel.DIFFERENCE, less)):
        yield _draw_panel(comparison, panel, side,
                          _mark_entries(comparison, _find_hidden(scene, comparison, side.run)))


def _draw_panel(comparison: Compared, panel: Panel, side: Side, marks: Array) -> Picture:
    """The rows and columns around the worst entry. marks: any shape, as what is compared."""
    at, (row, column) = comparison.index[:ROWS], comparison.index[ROWS:]
    rows, columns = (AXIS_NAMES[axis] for axis in comparison.axes[ROWS:])
    crop = Crop.crop_around((row, column), side.array.shape)
    picture = _draw_picture(f"{panel.value}: {side.name}", (rows, columns), side.array[at],
                          marks[at], crop)
    picture = replace(picture, panel=panel, worst=(row + comparison.first_row, column))
    if not comparison.first_row:
        return picture
    return replace(picture, first=(picture.first[0] + comparison.first_row, picture.first[1]),
                   whole=())


def _draw_picture(name: str, axes: tuple[str, str], array: Array, marks: Array,
                  crop: Crop) -> Picture:
    """The part (T,S), or other axes, that a crop shows. marks: one character an entry."""
    entries = tuple(tuple(map(_plain_number, line)) for line in crop.crop_array(array))
    lines_of_marks = tuple("".join(line) for line in crop.crop_array(marks))
    if not any(line.strip(PLAIN) for line in lines_of_marks):
        lines_of_marks = ()
    first = (crop.rows.start, crop.columns.start)
    return Picture(name, *axes, entries, first=first, whole=array.shape, marks=lines_of_marks)


def _mark_entries(comparison: Compared, is_hidden: Array | None) -> Array:
    """Marks masked and unjudged entries of any shape that is compared."""
    marks = np.where(comparison.claimed, PLAIN, UNJUDGED)
    if is_hidden is None:
        return marks
    return np.where(is_hidden, MASKED, marks)


def _find_hidden(scene: Scene, comparison: Compared, run: str) -> Array | None:
    """Which entries (B,H,T,S) are masked; None unless the comparison is query by key."""
    if comparison.axes[ROWS:] != ("T", "S") or not _is_drawable(scene, run):
        return None
    is_visible = visible(scene, run)
    if "H" not in comparison.axes:
        is_visible = np.asarray(is_visible.any(axis=1))
    rows = slice(comparison.first_row, comparison.first_row + comparison.claimed.shape[ROWS])
    is_hidden = ~is_visible[..., rows, :]
    return is_hidden if is_hidden.shape == comparison.claimed.shape else None


def _is_drawable(scene: Scene, run: str) -> bool:
    return all(count_logits(part.sizes) <= MAX_DRAWN_LOGITS and not isinstance(part, RotaryProblem)
               for part in scene.runs[run].parts)


def _draw_masked_weights(scene: Scene, comparison: Compared) -> Iterator[Picture]:
    """The weights by definition, with the mask, where hidden keys matter and none is drawn yet."""
    run, axes = comparison.seen.run, comparison.axes
    is_drawn = axes[COLUMNS] == "S" or axes[:1] != ("B",) or "T" not in axes
    if is_drawn or not _is_drawable(scene, run):
        return
    is_visible = visible(scene, run)
    if is_visible.all():
        return
    weights = read_definition(scene, run, "weights", ("B", "H", "T", "S"),
                              lambda expected: expected.weights)
    index = dict(zip(axes, _worst_entry(comparison), strict=True))
    batch, row, whose, heads = index["B"], index["T"], "on average", slice(None)
    if "H" in index:
        whose, heads = f"of head {index['H']}", slice(index["H"], index["H"] + 1)
    visible_keys = np.asarray(is_visible[batch, heads].any(axis=0))
    last = max(np.flatnonzero(visible_keys[row]), default=0)
    marks = np.where(visible_keys, PLAIN, MASKED)
    yield _draw_picture(f"weights by definition {whose}, with the mask",
                        (AXIS_NAMES["T"], AXIS_NAMES["S"]), weights[batch, heads].mean(axis=0),
                        marks, Crop.crop_around((row, int(last)), visible_keys.shape))


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
    """The failing case with its pictures, or how the call ended.  last: the case, if any."""
    if isinstance(failure, Violated):
        pictures = draw_case(trial, failure.recipe)
        return Evidence(failure.measured.sentence, describe_case(trial, failure.recipe),
                        failure.recipe.text, failure.measured, pictures.pictures,
                        caption=pictures.caption,
                        calls=calls_at_other_sizes(trial, failure.recipe))
    evidence = Evidence(str(failure), "", "", traceback=failure.traceback)
    if isinstance(failure, SubjectDied):
        evidence = replace(evidence, stderr=failure.stderr)
    if last:
        evidence = replace(evidence, case=describe_case(trial, last), recipe=last.text,
                           calls=calls_at_other_sizes(trial, last))
    return evidence


def calls_at_other_sizes(trial: Trial, recipe: Recipe) -> tuple[str, ...]:
    """The sizes of the calls that a clause makes of a case, if some differ from the case's."""
    try:
        scene, own = trial.scene(recipe), trial.evaluator.problem(recipe, trial.check.domain.poses)
    except NoClaim:  # a case that is drawn too small for what the clause makes of it
        return ()
    sizes = dict.fromkeys(problem.sizes for run in scene.runs.values()
                          for problem in (*run.before, *run.parts))
    if not sizes.keys() - {own.sizes}:
        return ()
    return tuple(spell_lengths(each.by_axis) for each in sizes)


def add_place(trial: Trial, evidence: Evidence, place: FailurePlace) -> Evidence:
    """The evidence with where it fails, drawn where there is room."""
    located = replace(evidence, begins=place.begins, wrong=place.wrong)
    try:
        pictures = draw_with_room(trial, place.case, Recipe.parse(evidence.recipe))
    except Exception:  # a help, as the diagnosis is
        return located
    if pictures.pictures:
        return replace(located, pictures=pictures.pictures, caption=pictures.caption)
    return located


def is_worth_explaining(trial: Trial, evidence: Evidence, *, is_further: bool) -> bool:
    """Whether faults that explain a failure are looked for.

    A `may` clause is never explained, a `should` not at further dtypes, and no case so large that
    each fault tried would cost too much.

    is_further: at a dtype at which most clauses are sampled.
    """
    level = trial.check.clause.level
    if level is Level.MAY or (level is Level.SHOULD and is_further):
        return False
    work = count_work(Recipe.parse(evidence.recipe).sizes)
    return work <= EFFORTS[Effort.THOROUGH].largest
