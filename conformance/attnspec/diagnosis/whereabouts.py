"""Where the failures of a subject begin, in sizes, and which entries are wrong: what a finding says first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import Effort
from attnspec.diagnosis.boundaries import begins
from attnspec.diagnosis.boundary import Boundary
from attnspec.diagnosis.ranges import ranges, wrong_entries
from attnspec.diagnosis.variables import with_variables
from attnspec.problems.problem import Sizes
from attnspec.problems.recipe import Recipe
from attnspec.record.contradictions import ConditionStanding, lengths_in, needed_alone, standing, weakened
from attnspec.subjects.subject import SubjectRaised
from attnspec.trials.judging import Violated
from attnspec.trials.resizing import Resizer
from attnspec.trials.trial import Trial

COMPILING = frozenset({"jax"})
"""Frameworks that compile for every new shape."""

LEAST = 4
"""Lengths and widths are made no smaller: with fewer entries a mistake may happen not to show."""

HELD = 16
"""So many cases that hold beside a failing one are remembered: a fault that fails there is not behind it."""

ROOM = 6
"""Lengths and widths at which ranges are told, where they do not matter: enough to tell one row from every row."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What locating may cost: so many failures of a subject, and each so many sizes, multiply-adds and seconds.

    compiled: sizes where each is compiled for.
    """

    failures: int
    sizes: int
    compiled: int
    work: float
    seconds: float


BRIEF, USUAL = Patience(1, 40, 8, 1e8, 2.0), Patience(4, 60, 20, 1e9, 8.0)
"""At a glance, and at every other effort. The work stops a search; seconds stop one of slow calls."""


@dataclass(frozen=True, slots=True)
class FailurePlace:
    """Where a failure lies: the sizes at which it begins, and the entries that are wrong.

    begins: at which sizes it fails, in a sentence; "" where all are alike.  wrong: which entries, in a sentence.
    case: the failing case of which that is told, with room around the smallest.  held: some that hold at other sizes.
    smallest: the sizes at which it is told to begin.
    """

    begins: str = ""
    wrong: str = ""
    case: Recipe | None = None
    held: tuple[Recipe, ...] = ()
    smallest: Sizes | None = None


NOWHERE = FailurePlace()
"""Of a failure that was not located."""


def borne_out(place: FailurePlace, failing: str, held: Sequence[Recipe]) -> FailurePlace:
    """The place as the cases of the run bear it out: as told, as needed but not enough, or with no boundary.

    failing: the recipe of the case that is shown. A case that holds speaks against it if it would show as much.
    """
    shown = Recipe.parse(failing)
    passing = [lengths_in(each.text) for each in held if shows_as_much(each, shown)]
    found = standing(place.begins, [lengths_in(failing)], passing)
    if found is ConditionStanding.IS_NEEDED:
        return replace(place, begins=weakened(place.begins))
    return place if found is ConditionStanding.DECIDES else replace(place, begins=_what_is_left(place.begins, failing))


def shows_as_much(held: Recipe, shown: Recipe) -> bool:
    """Whether a case would show a mistake that another shows: it is given the same, of such entries, and as large
    along every axis. A bias of zeros shows few mistakes.
    """
    is_alike = (held.features, held.mask, held.bias, held.families) == (
        shown.features, shown.mask, shown.bias, shown.families)
    return is_alike and all(held.sizes.by_axis[axis] >= length for axis, length in shown.sizes.by_axis.items())


def _what_is_left(begins: str, failing: str) -> str:
    """The conditions that the case which is shown meets, as a sentence; empty where it meets none."""
    left = needed_alone(begins, [(lengths_in(failing),)])
    return f"{left[:1].upper()}{left[1:]}." if left else ""


@dataclass(slots=True)
class Whereabouts:
    """Of one subject; failures that begin at the same sizes share what was found out."""

    _found: list[Boundary] = field(default_factory=list)
    _searched: int = 0

    def place(self, trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised], *,
              searches: bool = True) -> FailurePlace:
        """Where the failure of this case sits. At a glance only the subject's first is looked into.

        searches: whether a boundary is looked for where none that is known is this one's.
        """
        patience = BRIEF if trial.effort is Effort.GLANCE else USUAL
        if self._searched >= patience.failures and trial.effort is Effort.GLANCE:
            return NOWHERE
        resizer = _resizer(trial, recipe, failure, patience)
        boundary = self._shared(resizer)
        if boundary is None and searches and self._searched < patience.failures:
            self._searched += 1
            boundary = begins(resizer)
            boundary = with_variables(trial, resizer, boundary) if boundary and patience is USUAL else boundary
            self._found += [boundary] if boundary else []
        if boundary is None:
            return NOWHERE
        place = _placed(trial, resizer, boundary) if failure is Violated else FailurePlace(boundary.sentence)
        return replace(place, held=resizer.held[:HELD], smallest=boundary.smallest.sizes)

    def spoken_against(self, failing: Sequence[str], held: Sequence[Recipe]) -> str:
        """What was told of where failures begin, as what is needed alone, where a case that holds speaks against it;
        empty if none does.
        """
        told = [known.sentence for known in self._found if known.told]
        return next((weakened(begins) for begins in told for recipe in failing
                     if borne_out(FailurePlace(begins), recipe, held).begins == weakened(begins) != begins), "")

    def _shared(self, resizer: Resizer) -> Boundary | None:
        """What is known already, if this failure too is there, and not beside it."""
        told = (each for each in self._found if each.outside or not each.told)
        return next((each for each in told if _is_there(resizer, each) or _is_here(resizer, each)), None)


def _is_there(resizer: Resizer, known: Boundary) -> bool:
    """Whether a case fails at the smallest sizes of a boundary, and not beside them."""
    fails = resizer.fails
    return bool(fails(known.smallest.sizes)) and all(fails(outside) is False for outside in known.outside)


def _is_here(resizer: Resizer, known: Boundary) -> bool:
    """The same of the case's own sizes but for what differs there: a clause may not have its smallest sizes."""
    sizes, inside = resizer.recipe.sizes, known.smallest.sizes
    pairs = [(_as_where(sizes, inside, outside, inside), _as_where(sizes, inside, outside, outside))
             for outside in known.outside]
    return bool(pairs) and all(resizer.fails(one) and resizer.fails(other) is False for one, other in pairs)


def _as_where(sizes: Sizes, inside: Sizes, outside: Sizes, which: Sizes) -> Sizes:
    """Sizes with those of one side of a boundary where both sides differ."""
    differing = inside.by_axis.items() - outside.by_axis.items()
    return replace(sizes, **{axis: which.by_axis[axis] for axis, _ in differing})


def _resizer(trial: Trial, recipe: Recipe, failure: type[Violated | SubjectRaised], patience: Patience) -> Resizer:
    quiet, subject = replace(trial, compiles=False), trial.evaluator.subject
    sizes = patience.compiled if subject.declaration.lift in COMPILING else patience.sizes
    compiling = trial.evaluator.compiling
    seconds = min(patience.seconds, compiling.left) if compiling else patience.seconds
    return Resizer(quiet.put, recipe, trial.check.domain, subject.declaration.limits, sizes, patience.work, seconds,
                   failure, LEAST, any_family=True)


def _placed(trial: Trial, resizer: Resizer, boundary: Boundary) -> FailurePlace:
    """With the wrong entries at sizes with room around the smallest: `At B=2 …: rows 64 to 129 of every head.`"""
    for sizes in _with_room(boundary):
        recipe = resizer.failing.get(sizes) if resizer.fails(sizes) else None
        found = wrong_entries(trial.scene(recipe)) if recipe else None
        if found:
            return FailurePlace(boundary.sentence, f"At {sizes}: {ranges(*found)}.", recipe)
    return FailurePlace(boundary.sentence)


def _with_room(boundary: Boundary) -> Iterator[Sizes]:
    """The sizes that matter twice as large and the others with room; those with room alone; the others alone with room;
    the smallest.
    """
    sizes, matter = boundary.smallest.sizes, {axis for told in boundary.told for axis in told.axes}
    groups = sizes.H // sizes.Hkv
    kv_heads = max(sizes.Hkv, 2)
    roomy = Sizes(max(sizes.B, 2), kv_heads * groups, kv_heads, *(max(each, ROOM) for each in
                                                               (sizes.T, sizes.S, sizes.D, sizes.Dv)))
    lengths = [axis for axis in ("T", "S", "D", "Dv") if axis in matter]
    twice = {axis: 2 * getattr(roomy, axis) for axis in lengths}
    kept = {axis: getattr(sizes, axis) for axis in lengths}
    yield from (replace(roomy, **twice), roomy, replace(roomy, **kept), sizes)
