"""The words of the spec language that are about rotary embeddings.

A probe asks rotary embeddings: which features are a pair, and how far tokens may stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Literal

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Declaration
from attnspec.core.dtype import DTYPES
from attnspec.core.forms import FARTHEST
from attnspec.core.nouns import Kind
from attnspec.numerics.precision import assumed_precision
from attnspec.numerics.reference import wide_float
from attnspec.numerics.rotary import ROTARY_PAIRS, expect_rotary, is_interleaved, norm_allowance, split_pairs
from attnspec.problems.make import RotaryProblem
from attnspec.problems.problem import Array, numpy_dtype
from attnspec.questions.asker import (
    OTHER,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    When,
    convention_answers,
    declared_convention,
)
from attnspec.record.outcome import Measured
from attnspec.vocabulary.observables import compare, compare_exactly, look_at, of_run, seen_of
from attnspec.vocabulary.scene import Axis, NoClaim, ObservedRun, Posed, Scene, Side
from attnspec.vocabulary.signature import ORIGINAL, DrawnSeed, RunName
from attnspec.vocabulary.transforms.axes import permutation

Rotary = Posed[RotaryProblem]
Along = Literal["batch", "heads", "tokens"]
_AXIS: Mapping[Along, Axis] = {"batch": "B", "heads": "H", "tokens": "T"}
NAME = "rotated x"


def shift_places(posed: Rotary, *, by: int) -> Rotary:
    """Move every token by so many places."""
    places = posed.one.positions + np.int32(by)
    if places.max() > FARTHEST:
        raise NoClaim("a place would lie beyond the farthest that is put")
    return posed.but(positions=places)


def one_at_a_time(posed: Rotary, *, along: Along) -> Rotary:
    """Take x apart: one call for each batch entry, head or token, with its own positions; the answers joined again."""
    axis = _AXIS[along]
    count = posed.one.sizes.by_axis[axis]
    return replace(posed, parts=tuple(_take_entries(posed.one, axis, np.array([at])) for at in range(count)), join=axis)


def reorder(posed: Rotary, *, along: Along, by: DrawnSeed) -> Rotary:
    """Put batch entries, heads or tokens in another order; the answer is read back in the old one."""
    axis = _AXIS[along]
    order = permutation(by, posed.one.sizes.by_axis[axis])
    return replace(posed, parts=(_take_entries(posed.one, axis, order),)).reading(axis, np.argsort(order))


def _take_entries(problem: RotaryProblem, axis: Axis, index: Array) -> RotaryProblem:
    """The entries at `index` of an axis of x (B,H,T,D), and of positions (B,T) if it has it."""
    x = np.ascontiguousarray(np.take(problem.x, index, axis="BHTD".index(axis)))
    if axis == "H":
        return problem.but(x=x)
    return problem.but(x=x, positions=np.ascontiguousarray(np.take(problem.positions, index, axis="BT".index(axis))))


def leaves_input_as_it_is(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """What is returned is the input, entry by entry: at position 0, cos is 1 and sin is 0, both
    exactly. Who declares to turn features in a narrower format may have rounded them to it.
    """
    seen, problem = look_at(scene, run, "output"), scene.problem(run)
    narrow = DTYPES[scene.evaluator.precision.rotation].roundoff
    if narrow <= DTYPES[problem.dtype].roundoff:
        return _same(scene, "leaves_input_as_it_is", run, seen.array, seen.claimed)
    own = problem.x.astype(wide_float(scene.dtype))
    return compare(scene, "leaves_input_as_it_is", of_run("output", run, seen.array), Side("x", run, own),
                   (narrow * np.abs(own), seen.claimed),
                   what="what is not turned should be returned, rounded to the format of the products")


def leaves_the_rest(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Features beyond those that are turned are returned as they are, entry by entry."""
    problem, seen = scene.problem(run), look_at(scene, run, "output")
    beyond = np.arange(seen.array.shape[-1]) >= problem.width
    if not beyond.any():
        raise NoClaim("all features are turned")
    return _same(scene, "leaves_the_rest", run, seen.array, seen.claimed & beyond)


def _same(scene: Scene, relation: str, run: RunName, array: Array, claimed: Array) -> Measured:
    """Whether an output (B,H,T,D) equals x where that is claimed."""
    own = scene.problem(run).x.astype(wide_float(scene.dtype))
    return compare_exactly(scene, relation, of_run("output", run, array), Side("x", run, own), claimed,
                           what="what is not turned should be returned as it is")


def keeps_pair_norms(scene: Scene, *, run: RunName = ORIGINAL) -> Measured:
    """Every pair keeps its norm: whatever the angle, cos² + sin² is 1, so that no error of the angle counts."""
    problem, seen = scene.problem(run), look_at(scene, run, "output")
    norms = _norms(problem, seen.array, scene)
    wanted = _norms(problem, problem.x.astype(wide_float(scene.dtype)), scene)
    slack = norm_allowance(problem, scene.evaluator.precision, scene.conventions)
    claimed = np.broadcast_to(seen.claimed[..., :1], norms.shape)
    name = "norm of each pair of"
    return compare(scene, "keeps_pair_norms", Side(f"{name} the {seen_of('output', run, norms).name}", run, norms),
                   Side(f"{name} x", run, wanted), (slack, claimed), what="the norm of each pair should be kept")


def _norms(problem: RotaryProblem, array: Array, scene: Scene) -> Array:
    """(B,H,T,R): the norms of the pairs of an array (B,H,T,D)."""
    interleaved = is_interleaved(problem, scene.conventions)
    return np.asarray(np.hypot(*split_pairs(array, problem.width, interleaved=interleaved)))


def scores_agree(scene: Scene, *, runs: tuple[RunName, RunName]) -> Measured:
    """The dot products of every two tokens are the same in both runs, within what the rounding of each token allows."""
    (one, of_one), (two, of_two) = (_scores(look_at(scene, run, "output")) for run in runs)
    slack = of_one + of_two
    first, second = (look_at(scene, run, "output").claimed.all(axis=-1) for run in runs)
    both = np.asarray(first & second)
    claimed = both[..., :, None] & both[..., None, :]
    return compare(scene, "scores_agree", Side(f"dot products of `{runs[0]}`", runs[0], one),
                   Side(f"dot products of `{runs[1]}`", runs[1], two), (slack, claimed),
                   what=f"the dot products of tokens should be the same in {runs[0]} and {runs[1]}")


def _scores(seen: ObservedRun) -> tuple[Array, Array]:
    """(B,H,T,T) each: the dot products of every two tokens, and how far they may be off; what
    adding them up here costs is counted, too.
    """
    array, off = seen.array, seen.allowance
    size, turned = np.abs(seen.truth) + off, off.swapaxes(-1, -2)
    slack = size @ turned + off @ size.swapaxes(-1, -2) - off @ turned
    own = array.shape[-1] * float(np.finfo(array.dtype).eps) * (size @ size.swapaxes(-1, -2))
    return np.asarray(array @ array.swapaxes(-1, -2)), np.asarray((slack + own).astype(np.float64))


def composes(scene: Scene, *, first: RunName, whole: RunName) -> Measured:
    """What `first` returns, turned further by the places that `whole` is ahead, is what `whole`
    returns.

    A rotation keeps norms, so that the errors of the first one move a pair no further than they
    are long.
    """
    start, end = scene.problem(first), scene.problem(whole)
    [answer] = scene.answers(scene.runs[first])
    if answer.output.dtype != start.x.dtype:
        raise NoClaim("the output has another dtype than the input")
    further = start.but(x=answer.output, positions=end.positions - start.positions)
    key = scene.runs[whole].key
    last = scene.evaluator.ask(further, key and f"{key}|turned on", fresh=False)
    expected = scene.evaluator.expect(further, "", "output")
    seen, earlier = look_at(scene, whole, "output"), look_at(scene, first, "output")
    slack = seen.allowance + expected.output_allowance + _carry_allowance(start, earlier.allowance, scene)
    claimed = seen.claimed & earlier.claimed & expected.claimed[..., None]
    array = last.output.astype(wide_float(scene.dtype))
    shown = Side(f"output of `{first}`, turned on", whole, array)
    return compare(scene, "composes", shown, of_run("output", whole, seen.array), (slack, claimed),
                   what=f"{first}, turned on, should be {whole}")


def _carry_allowance(problem: RotaryProblem, allowance: Array, scene: Scene) -> Array:
    """(B,H,T,D): how far an entry's error may move both entries of its pair, once turned."""
    carried = allowance.copy()
    interleaved = is_interleaved(problem, scene.conventions)
    norm = np.hypot(*split_pairs(allowance, problem.width, interleaved=interleaved))
    for place in split_pairs(carried, problem.width, interleaved=interleaved):
        place[...] = norm
    return carried


ROTARY_TRANSFORMS = (shift_places, one_at_a_time, reorder)
ROTARY_RELATIONS = (leaves_input_as_it_is, leaves_the_rest, keeps_pair_norms, scores_agree, composes)


_WIDTH = 8
_OFF = 0.25
"""Far above what float32 angles cost at the farthest place, far below what another place does."""
_PLACES = (0, 1, 511, 2047, 2048, 4095, 8191, 32_767, 65_535, FARTHEST)


def ask_pairs(asker: Asker) -> Reply:
    """Where the first feature goes when a token is turned by one radian. Raises NotAsked for any
    but a rotary embedding.
    """
    problem = _problem(asker, 1)
    width = problem.x.shape[-1]
    output = asker.ask_output(problem)[0, 0, 0]
    moved = [int(at) for at in np.flatnonzero(np.abs(output) > np.sin(1) / 2) if at]
    partner = {1: "interleaved", width // 2: "halves"}.get(moved[0], OTHER) if len(moved) == 1 else OTHER
    return Reply(partner, f"the first feature of {width} moves to {moved}")


def _farthest(asker: Asker) -> Reply:
    """The farthest place where a token is turned by its own angle. Raises NotAsked or Failed."""
    turned = list(takewhile(partial(_is_turned, asker, {ROTARY_PAIRS: ask_pairs(asker).answer}), _PLACES))
    return Reply(str(turned[-1]) if turned else OTHER, f"of {', '.join(map(str, _PLACES))}")


def _is_turned(asker: Asker, conventions: Mapping[str, str], place: int) -> bool:
    """Whether a token at a place is turned by its own angle; a call that fails turns nothing."""
    problem = _problem(asker, place)
    truth = expect_rotary(problem, assumed_precision(problem.dtype), conventions=conventions).output
    try:
        return bool(np.abs(asker.ask_output(problem) - truth).max() <= _OFF)
    except Failed:
        return False


def _problem(asker: Asker, place: int) -> RotaryProblem:
    """One token, whose first feature alone is 1, at a place."""
    said = asker.subject.declaration
    if said.kind is not Kind.ROTARY:
        raise NotAsked
    x = np.zeros((1, asker.heads, 1, said.limits.nearest("D", max(_WIDTH, said.limits.min_head_width))),
                 numpy_dtype(asker.dtype))
    x[..., 0] = 1
    return RotaryProblem(asker.dtype, x, np.full((1, 1), place, np.int32))


def _claimed_pairs(declaration: Declaration) -> str:
    """Who takes a flag has halves without it."""
    return "halves" if "interleaved" in declaration.keywords else declared_convention(ROTARY_PAIRS)(declaration)


ROTARY_QUESTIONS = (
    Question("rotary.pairs", CONVENTIONS[ROTARY_PAIRS].question, convention_answers(ROTARY_PAIRS), ask_pairs,
             _claimed_pairs),
    Question("rotary.farthest", "Which is the farthest of some places up to 131072 where a token is turned by its own "
                                "angle?", {}, _farthest, when=When.EVERY_DTYPE),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {ROTARY_PAIRS: ask_pairs}
"""By convention, what finds out what a subject does."""
