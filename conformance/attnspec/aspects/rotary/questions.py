"""What a probe asks rotary embeddings: which features are a pair, and how far tokens may stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.declaration import Declaration
from attnspec.core.nouns import Kind
from attnspec.core.rotary import FARTHEST
from attnspec.numerics.precision import assumed
from attnspec.numerics.rotary import PAIRS, expect_rotary
from attnspec.problems.problem import numpy_dtype
from attnspec.problems.rotary import RotaryProblem
from attnspec.questions.asker import FAILURES, OTHER, Asker, Failed, NotAsked, Question, Reply, When, convention

_WIDTH = 8
_OFF = 0.25
"""Far above what float32 angles cost at the farthest place, far below what another place does."""
_PLACES = (0, 1, 511, 2047, 2048, 4095, 8191, 32_767, 65_535, FARTHEST)


def pairs(asker: Asker) -> Reply:
    """Where the first feature goes when a token is turned by one radian. Raises NotAsked for any but a rotary
    embedding.
    """
    problem = _problem(asker, 1)
    width = problem.x.shape[-1]
    output = asker.output(problem)[0, 0, 0]
    moved = [int(at) for at in np.flatnonzero(np.abs(output) > np.sin(1) / 2) if at]
    partner = {1: "interleaved", width // 2: "halves"}.get(moved[0], OTHER) if len(moved) == 1 else OTHER
    return Reply(partner, f"the first feature of {width} moves to {moved}")


def _farthest(asker: Asker) -> Reply:
    """The largest of some places up to which tokens are turned by their own angle. Raises NotAsked or Failed."""
    turned = list(takewhile(partial(_is_turned, asker, {PAIRS: pairs(asker).answer}), _PLACES))
    return Reply(str(turned[-1]) if turned else OTHER, f"of {', '.join(map(str, _PLACES))}")


def _is_turned(asker: Asker, conventions: Mapping[str, str], place: int) -> bool:
    """Whether a token at a place is turned by its own angle; a call that fails turns nothing."""
    problem = _problem(asker, place)
    truth = expect_rotary(problem, assumed(problem.dtype), conventions=conventions).output
    try:
        return bool(np.abs(asker.output(problem) - truth).max() <= _OFF)
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
    return "halves" if "interleaved" in declaration.keywords else convention(PAIRS)(declaration)


ROTARY_QUESTIONS = (
    Question("rotary.pairs", CONVENTIONS[PAIRS].question, {
        **{answer: says for answer, says in CONVENTIONS[PAIRS].answers.items() if answer != UNDEFINED}, **FAILURES},
        pairs, _claimed_pairs),
    Question("rotary.farthest", "Which is the farthest of some places up to 131072 where a token is turned by its own "
                                "angle?", {}, _farthest, when=When.EVERY_DTYPE),
)

CONVENTIONS_ASKED: Mapping[str, Callable[[Asker], Reply]] = {PAIRS: pairs}
"""By convention, what finds out what a subject does."""
