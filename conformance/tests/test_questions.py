"""Every answer of every question of a probe is found out of a subject that was made to give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from attnspec.aspects.masks import words as masks
from attnspec.aspects.softcap import words as softcap
from attnspec.aspects.window import words as window
from attnspec.aspects.window.faults import within_window
from attnspec.faults.staged import SOUND, attention, exponentials, normalise
from attnspec.faults.staged_work import Answer, HandedOver, PreparedCall
from attnspec.problems.problem import Array
from attnspec.questions import inputs
from helpers.liars import Liar, answers_to, changing, find_answer, sound, when, with_stages


def plus(number: float) -> Liar:
    return lambda call: np.asarray(attention(clean(call))) + number


def clean(call: HandedOver) -> HandedOver:
    return call.but(key=np.nan_to_num(call.key, posinf=0), value=np.nan_to_num(call.value, posinf=0))


def mask_as_bias(call: HandedOver, sign: int = 1) -> HandedOver:
    return call if call.mask is None else call.but(mask=None, bias=sign * call.mask.astype(call.query.dtype))


def bias_as_mask(call: HandedOver, *, drops: bool = False) -> HandedOver:
    return call if call.bias is None else call.but(bias=None, mask=(call.bias != 0) ^ drops)


def mask_negated(call: HandedOver) -> HandedOver:
    return call if call.mask is None else call.but(mask=np.logical_not(call.mask))


def scaled_bias(call: HandedOver) -> HandedOver:
    return call if call.bias is None else call.but(bias=call.bias * call.query.shape[-1] ** -0.5)


def with_past(past: Callable[[int, int], Array]) -> Liar:
    return with_stages(past=lambda work: past(*work.shape[2:]) if work.causal else np.ones(work.shape[2:], bool))


def aligned(shift: int) -> Liar:
    return with_past(lambda T, S: np.tri(T, S, shift * (S - T), dtype=bool))


def windowed(more: int = 0, shift: int = 0) -> Liar:
    def near(work: PreparedCall) -> Array:
        T, S = work.shape[2:]
        if work.window is None:
            return np.ones((T, S), bool)
        left, right = work.window
        assert left is not None
        return within_window(T, S, (left + more, right), shift * (S - T))

    return with_stages(near=near)


def empty_rows(number: float, below: Liar = sound, *, least: float = -np.inf) -> Liar:
    """Rows of which every logit is `least` or less become this number."""
    def softmax(logits: Array, _: PreparedCall) -> Array:
        nothing = (logits <= least).all(axis=-1, keepdims=True)
        return np.where(nothing, number, normalise(exponentials(logits)))

    return lambda call: attention(call, replace(_stages_of(below), softmax=softmax))


def _stages_of(liar: Liar) -> Any:  # noqa: ANN401  (stages)
    return getattr(liar, "keywords", {}).get("stages", SOUND)


def rows(below: Liar = sound, least: float = -np.inf) -> dict[str, Liar]:
    """Each answer about rows that see nothing. S is 4, or 2 where there are more queries."""
    def mean(call: HandedOver) -> Answer:
        return empty_rows(1 / call.key.shape[2], below, least=least)(call)

    zeros, nan = (empty_rows(number, below, least=least) for number in (0.0, np.nan))
    return {"zeros": zeros, "uniform": mean, "nan": nan}


def open_where_nothing(call: HandedOver) -> Answer:
    """What is handed over is ignored where it hides a whole row."""
    hides = (call.mask is not None and not call.mask.any(axis=-1).all()) or (
        call.bias is not None and bool((call.bias < -1e4).all(axis=-1).any()))
    return attention(call.but(mask=None, bias=None) if hides else call)


def is_poisoned(call: HandedOver) -> bool:
    return not (np.isfinite(call.key).all() and np.isfinite(call.value).all())


DAMAGES = {"harmless": when(is_poisoned, plus(0.0)), "nan": when(is_poisoned, plus(np.nan)),
           "infinite": when(is_poisoned, plus(np.inf)), "changed": when(is_poisoned, plus(1.0))}


def capped(cap: Callable[[Array, float], Array]) -> Liar:
    return with_stages(bend=lambda logits, work: logits if work.softcap is None else cap(logits, work.softcap))


CAPS = {"capped": sound, "clipped": capped(lambda logits, most: np.clip(logits, -most, most)),
        "ignored": capped(lambda logits, _: logits)}


def capped_with_bias(call: HandedOver) -> Answer:
    if call.softcap is None or call.bias is None:
        return attention(call)
    bias = np.asarray(call.bias)
    return attention(call.but(bias=None), replace(SOUND, bend=lambda logits, work: (
        work.softcap * np.tanh((logits + bias) / work.softcap))))


def only_together(mask: bool, causal: bool, form: str) -> Liar:
    def change(call: HandedOver) -> HandedOver:
        if not call.causal or getattr(call, form) is None:
            return call
        return call.but(causal=causal, **({} if mask else {form: None}))

    return changing(change)


def together(form: str) -> dict[str, Liar]:
    return {"both": sound, "mask": only_together(mask=True, causal=False, form=form),
            "causal": only_together(mask=False, causal=True, form=form),
            "neither": only_together(mask=False, causal=False, form=form)}


def of_floats(change: Callable[[HandedOver], HandedOver]) -> Liar:
    """What a mask that is no boolean array means."""
    return changing(lambda call: change(call) if call.mask is not None and call.mask.dtype != bool else call)


def of_booleans(change: Callable[[HandedOver], HandedOver]) -> Liar:
    return changing(lambda call: change(call) if call.bias is not None and call.bias.dtype == bool else call)


ALIGNED = {"top_left": aligned(0), "bottom_right": aligned(1),
           "everything": with_past(lambda T, S: np.ones((T, S), bool))}
IN_WINDOW = {"top_left": windowed(), "bottom_right": windowed(shift=1),
             "everything": changing(lambda call: call.but(window=None))}

PLANTED: Mapping[str, Mapping[str, Liar]] = {
    "mask.polarity": {
        "keep": sound, "drop": changing(mask_negated), "added": changing(mask_as_bias),
        "after_softmax": with_stages(masked=lambda work: np.ones(work.shape, bool), weigh=lambda weights, work: (
            weights if work.mask is None else weights * work.mask)),
        "ignored": changing(lambda call: call.but(mask=None))},
    "mask.float": {
        "added": of_floats(lambda call: call.but(bias=call.mask, mask=None)), "truth": sound,
        "truth_dropped": of_floats(mask_negated), "ignored": of_floats(lambda call: call.but(mask=None))},
    "bias.boolean": {
        "added": sound, "truth": of_booleans(bias_as_mask),
        "truth_dropped": of_booleans(partial(bias_as_mask, drops=True)),
        "ignored": of_booleans(lambda call: call.but(bias=None))},
    "bias.form": {
        "added": sound, "added_before_scaling": changing(scaled_bias),
        "subtracted": changing(lambda call: call if call.bias is None else call.but(bias=-1.0 * call.bias)),
        "truth": changing(bias_as_mask), "truth_dropped": changing(partial(bias_as_mask, drops=True)),
        "ignored": changing(lambda call: call.but(bias=None))},
    "mask_with_causal": together("mask"), "bias_with_causal": together("bias"),
    "causal.square": {
        "past": sound, "strict_past": with_past(lambda T, S: np.tri(T, S, -1, dtype=bool)),
        "future": with_past(lambda T, S: ~np.tri(T, S, -1, dtype=bool)), "everything": ALIGNED["everything"]},
    "causal_alignment.longer_keys": ALIGNED, "causal_alignment.longer_queries": ALIGNED,
    "window.reach": {
        "as_asked": sound, "one_less": windowed(-1), "one_more": windowed(1),
        "past": changing(lambda call: call if call.window is None else call.but(window=None, causal=True)),
        "everything": IN_WINDOW["everything"]},
    "window.longer_keys": IN_WINDOW, "window.longer_queries": IN_WINDOW, "hidden_row.window": rows(),
    "softcap.form": CAPS, "softcap.bias": {**CAPS, "capped_with_bias": capped_with_bias},
    **{f"hidden_row.{form}": {**rows(), "unmasked": open_where_nothing} for form in ("mask", "bias")},
    "hidden_row.finfo_min": {**rows(least=-1e30), "unmasked": open_where_nothing},
    "hidden_row.causal": rows(aligned(1)),
    **{f"hidden_{place}.{content}.{form}": DAMAGES for place in ("key", "value") for content in ("nan", "inf")
       for form in ("mask", "bias", "causal")},
}
ASKED = (inputs.MASK_POLARITY, *masks.QUESTIONS, *masks.MASKED_QUESTIONS, *masks.RISKY_QUESTIONS,
         *window.QUESTIONS, *softcap.QUESTIONS)
CASES = [(question, answer) for question, answers in PLANTED.items() for answer in answers]


@pytest.mark.parametrize(("question", "answer"), CASES)
def test_a_planted_liar_gets_its_answer(question: str, answer: str) -> None:
    assert find_answer(PLANTED[question][answer], question).answer == answer


def test_every_answer_is_planted() -> None:
    assert {name: set(answers) for name, answers in PLANTED.items()} == answers_to(ASKED)
