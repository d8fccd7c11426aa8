"""Sound attention that goes wrong where its sizes meet a condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from attnspec.faults import staged
from attnspec.faults.staged_work import Answer, HandedOver
from attnspec.faults.subject import own_subject
from attnspec.problems.problem import Array, Sizes
from attnspec.subjects.callee import InProcess
from attnspec.subjects.subject import Subject

Wrong = Callable[[HandedOver], Answer]


def sizes_of(call: HandedOver) -> Sizes:
    """The lengths of the axes of a call."""
    B, H, T, D = call.query.shape
    Hkv, S, Dv = call.value.shape[1:]
    return Sizes(B, H, Hkv, T, S, D, Dv)


def _change_answer(call: HandedOver, change: Callable[[Array], Array]) -> Answer:
    """The sound answer with another output, (B,H,T,Dv)."""
    answer = staged.attention(call)
    return (change(answer[0]), answer[1]) if isinstance(answer, tuple) else change(answer)


def one_more(call: HandedOver) -> Answer:
    """An output with 1 added everywhere."""
    return _change_answer(call, lambda output: output + np.ones_like(output))


def less_with_more_keys(call: HandedOver) -> Answer:
    """An output that is off by 4e-4 / S: of many keys as little as rounding may be."""
    return _change_answer(call, lambda output: output + output.dtype.type(4e-4 / call.key.shape[2]))


def last_row_wrong(call: HandedOver) -> Answer:
    """An output with 1 added to its last row."""
    last = (np.arange(call.query.shape[2]) == call.query.shape[2] - 1)[:, None]
    return _change_answer(call, lambda output: output + last.astype(output.dtype))


def some_heads_wrong(call: HandedOver) -> Answer:
    """An output with 1 added in the heads whose first query begins with a number above 1: they are few."""
    few = call.query[:, :, :1, :1] > 1
    return _change_answer(call, lambda output: output + few.astype(output.dtype))


def lse_off(call: HandedOver) -> Answer:
    """The sound output, and a log-sum-exp with 1 added, where one is asked for."""
    answer = staged.attention(call)
    return (answer[0], answer[1] + answer[1].dtype.type(1)) if isinstance(answer, tuple) else answer


def half_scale(call: HandedOver) -> Answer:
    """(B,H,T,Dv) of logits that are half as large."""
    return staged.attention(call.but(scale=0.5 * (call.scale or call.query.shape[-1] ** -0.5)))


def raise_refusal(call: HandedOver) -> Array:
    """Nothing: an exception, as of a kernel that was given too large a block."""
    raise RuntimeError(f"no block for {call.query.shape}")


def plant_mistake(condition: Callable[[Sizes], object], wrong: Wrong = one_more) -> Subject:
    """A sound subject that answers as `wrong` does where the condition is met."""

    def answer(call: HandedOver) -> Answer:
        return wrong(call) if condition(sizes_of(call)) else staged.attention(call)

    return replace(own_subject("sound/naive"), id="planted", callee=InProcess(staged.as_attend(answer)))
