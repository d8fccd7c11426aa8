"""A question to rotary embeddings: which features are a pair."""

from __future__ import annotations

import numpy as np

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.nouns import Kind
from attnspec.problems.problem import numpy_dtype
from attnspec.problems.rotary import RotaryProblem
from attnspec.questions.asker import FAILURES, OTHER, RAISES, UNUSABLE, Asker, NotAsked, Question, Reply, convention
from attnspec.subjects.subject import SubjectDied, SubjectRaised, UnusableAnswer

NAME = "rotary_pairs"
_WIDTH = 8


def pairs(asker: Asker) -> Reply:
    """Where the first feature goes when a token is turned by one radian. Raises NotAsked for any but a rotary embedding
    whose pairs are no keyword.
    """
    said = asker.subject.declaration
    if said.kind is not Kind.ROTARY or "interleaved" in said.keywords:
        raise NotAsked
    width = said.limits.nearest("D", max(_WIDTH, said.limits.min_head_width))
    x = np.zeros((1, asker.heads, 1, width), numpy_dtype(asker.dtype))
    x[..., 0] = 1
    problem = RotaryProblem(asker.dtype, x, np.ones((1, 1), np.int32))
    if asker.subject.refuses(problem):
        raise NotAsked
    try:
        output = asker.subject.answer_rotary(problem).output.astype(np.float64)[0, 0, 0]
    except (SubjectRaised, SubjectDied) as failed:
        return Reply(RAISES, str(failed))
    except UnusableAnswer as unusable:
        return Reply(UNUSABLE, unusable.sentence)
    moved = [int(at) for at in np.flatnonzero(np.abs(output) > np.sin(1) / 2) if at]
    partner = {1: "interleaved", width // 2: "halves"}.get(moved[0], OTHER) if len(moved) == 1 else OTHER
    return Reply(partner, f"the first feature of {width} moves to {moved}")


PAIRS = Question("rotary.pairs", CONVENTIONS[NAME].question, {
    **{answer: says for answer, says in CONVENTIONS[NAME].answers.items() if answer != UNDEFINED}, **FAILURES},
    pairs, convention(NAME))
