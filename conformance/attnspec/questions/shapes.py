"""Questions about heads and widths, and about axes of length zero."""

from __future__ import annotations

from functools import partial

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.nouns import Kind
from attnspec.problems.problem import Problem, numpy_dtype
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    convention,
    is_close,
    shown,
    which,
)

YES, NO = "yes", "no"
KV_HEADS = 2
_ORDERS = ("repeat", "tile")


def heads_read(asker: Asker) -> Reply:
    """Which key/value head each query head reads. A declared limit is set aside: it is asked whether it is one."""
    problem = grouped(asker)
    heads = np.arange(problem.sizes.H)
    read = dict(zip(_ORDERS, (heads // (len(heads) // KV_HEADS), heads % KV_HEADS), strict=True))
    return which(asker.without_limits(grouped=True).output(problem)[:, :, 0, 0], read)


def grouped(asker: Asker) -> Problem:
    """Two query heads, or more if it takes no such groups, on each of two key/value heads, whose values say which of
    them was read. Raises NotAsked.
    """
    limits = asker.subject.declaration.limits
    if limits.single_head or (limits.self_attention_only and limits.grouped is False):
        raise NotAsked("it always has as many key/value heads as query heads")
    T, S = asker.lengths(4, 4)
    number, B, D = numpy_dtype(asker.dtype), asker.batch(T, S), asker.width
    H = KV_HEADS * limits.nearest("G", 2, least=2)
    value = np.tile(np.arange(KV_HEADS).reshape(1, KV_HEADS, 1, 1), (B, 1, S, D)).astype(number)
    return Problem(asker.dtype, np.zeros((B, H, T, D), number), np.zeros((B, KV_HEADS, S, D), number), value,
                   causal=limits.causal_only)


def _accepted(asker: Asker) -> Reply:
    """A wrong answer is no acceptance."""
    try:
        found = heads_read(asker)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(YES if found.answer in _ORDERS else NO, found.detail)


def _read(asker: Asker) -> Reply:
    if _accepted(asker).answer == NO:
        raise NotAsked("it only takes as many key/value heads as query heads")
    return heads_read(asker)


def _value_width(asker: Asker) -> Reply:
    """Values of four entries, keys of eight."""
    if asker.subject.declaration.kind is Kind.LAYER:
        raise NotAsked("the widths of a layer follow from its parameters")
    problem = asker.even(4, 4)
    narrow = problem.but(value=problem.value[..., :4].copy())
    try:
        seen = asker.without_limits(ties_value_width=False).output(narrow)
    except Failed as failed:
        return Reply(NO, failed.reply.detail)
    return Reply(YES if is_close(seen, np.full((4, 4), 0.25)) else NO, shown(seen))


def _claims_groups(declaration: Declaration) -> str:
    said = declaration.limits.grouped
    return "" if said is None else YES if said else NO


def _claims_width(declaration: Declaration) -> str:
    return NO if declaration.limits.ties_value_width else YES


HEAD_QUESTIONS = (
    Question("grouped", "Are fewer key/value heads than query heads accepted?",
             {YES: "yes", NO: "no: the call fails, or its answer is wrong"}, _accepted, _claims_groups),
    Question("grouped_heads", "Which key/value head does query head h use if Hkv < H?", {
        "repeat": "head h // (H / Hkv)", "tile": "head h % Hkv", **FAILURES}, _read, convention("grouped_heads")),
    Question("value_width", "May values have another width than keys?", {YES: "yes", NO: "no"}, _value_width,
             _claims_width),
)


def _ask_empty_axis(asker: Asker, axis: str) -> Reply:
    """Whoever sets a least number of scores has said so; 1, the ordinary one, is no limit here."""
    limits = asker.subject.declaration.limits
    if limits.min_scores > 1 or (limits.self_attention_only and axis == "keys"):
        raise NotAsked("a limit forbids it")
    problem = _empty(asker.even(4, 4), axis, is_self=limits.self_attention_only)
    output = asker.without_limits(min_scores=0).output(problem)
    if axis == "keys":
        return which(output, {"zeros": np.zeros(1), "nan": np.full(1, np.nan)})
    return Reply("empty", f"shape {output.shape}")


def _empty(problem: Problem, axis: str, *, is_self: bool) -> Problem:
    query, key, value = problem.query, problem.key, problem.value
    if axis == "batch":
        query, key, value = query[:0], key[:0], value[:0]
    if axis == "queries":
        query = query[:, :, :0]
    if axis == "keys" or (axis == "queries" and is_self):
        key, value = key[:, :, :0], value[:, :, :0]
    return problem.but(query=query.copy(), key=key.copy(), value=value.copy())


_GONE = {"empty": "an empty array of the right shape", **FAILURES}

SIZE_QUESTIONS = (
    Question("zero.queries", "What is returned if there are no queries (T = 0)?", _GONE,
             partial(_ask_empty_axis, axis="queries")),
    Question("zero.batch", "What is returned if the batch is empty (B = 0)?", _GONE,
             partial(_ask_empty_axis, axis="batch")),
    Question("zero.keys", "What is returned if there are no keys (S = 0)?",
             {"zeros": "zeros", "nan": "NaN", **FAILURES}, partial(_ask_empty_axis, axis="keys")),
)
