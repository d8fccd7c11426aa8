"""How much of a quick run may go to compilers, and what is said where that leaves something out."""

from __future__ import annotations

MOST_UNTOLD = 60.0
"""Seconds of compiling after which whoever waits is told."""

SHARE = 16
"""The part of what is left that one clause may take: those that need a new shape for each call come to a few cases."""

NEW_TO_OLD = 100
"""A call at a new shape that takes so many times what it takes again is one that compiles."""

RESHAPING = frozenset({
    "split", "drop_keys", "drop_first_keys", "drop_last_value", "keep_prefix", "keep_queries", "keep_kv_heads",
    "repeat_keys", "repeat_kv_heads", "widen", "in_chunks", "token_by_token", "past_as_keys"})
"""The words of `runs` that give a case other sizes, each of which is compiled."""

OWN_SIZES = frozenset({
    "features", "worked_example", "acceptance", "gaussian", "generic", "long", "panel", "score", "dropout"})
"""The kinds of problems whose sizes no other clause has."""

_BECAUSE = "each new shape takes {:.1g} s to compile"
CUT_SHORT = "tried on fewer cases: " + _BECAUSE
LEFT_OUT = "left out: " + _BECAUSE


def is_cut_short(reason: str) -> bool:
    """Whether a reason is that of a clause that was tried on fewer cases."""
    return reason.startswith(CUT_SHORT.partition("{")[0])


def is_left_out(reason: str) -> bool:
    """Whether a reason is that of a clause that was not tried."""
    return reason.startswith(LEFT_OUT.partition("{")[0])


def explain_left_out(reason: str) -> str:
    """`each new shape takes 0.4 s to compile`, of either."""
    return reason.partition(": ")[2]
