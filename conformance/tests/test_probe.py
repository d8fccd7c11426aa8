from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.problems.problem import Array
from attnspec.questions.undeclared import probe_conventions
from attnspec.subjects.smoke import smoke_subject
from attnspec.subjects.subject import Subject
from helpers.subjects import subject_of


def attention(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False,
              shift: int = 0, combine: str = "both", order: str = "repeat", empty: float | None = 0.0) -> Array:
    """Attention with the convention that each keyword names."""
    group = query.shape[1] // key.shape[1]
    spread = np.repeat if order == "repeat" else lambda array, count, axis: np.concatenate([array] * count, axis)
    key, value = (spread(array, group, axis=1) for array in (key, value))
    visible = np.ones((query.shape[2], key.shape[2]), bool)
    if causal and not (combine == "mask" and mask is not None):
        visible = np.tri(query.shape[2], key.shape[2], shift * (key.shape[2] - query.shape[2]), dtype=bool)
    if mask is not None and not (combine == "causal" and causal):
        visible = visible & mask
    if mask is not None and causal and combine == "raises":
        raise TypeError("one of the two")
    weights = np.where(visible, np.exp(query @ key.swapaxes(-1, -2)), 0)
    total = weights.sum(-1, keepdims=True)
    hidden = np.broadcast_to(1 / key.shape[2] if empty is None else empty, weights.shape)
    output: Array = np.where(total == 0, hidden, weights / np.where(total == 0, 1, total)) @ value
    return output


def following(**conventions: Any) -> Subject:  # noqa: ANN401  (of several types)
    def attend(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False) -> Array:
        return attention(query, key, value, mask=mask, causal=causal, **conventions)

    return subject_of(attend, {"mask", "causal"})


@pytest.mark.family(10)
@pytest.mark.parametrize(("conventions", "name", "answer"), [
    ({"empty": 0.0}, "hidden_row", "zeros"),
    ({"empty": None}, "hidden_row", "uniform"),
    ({"empty": np.nan}, "hidden_row", "nan"),
    ({"empty": 0.5}, "hidden_row", "undefined"),
    ({"empty": None}, "hidden_row.mask", "uniform"),
    ({"shift": 0}, "causal_alignment", "top_left"),
    ({"shift": 1}, "causal_alignment", "bottom_right"),
    ({"shift": 3}, "causal_alignment", "undefined"),
    ({"combine": "both"}, "mask_with_causal", "both"),
    ({"combine": "mask"}, "mask_with_causal", "mask"),
    ({"combine": "causal"}, "mask_with_causal", "causal"),
    ({"combine": "raises"}, "mask_with_causal", "raises"),
    ({"order": "repeat"}, "grouped_heads", "repeat"),
    ({"order": "tile"}, "grouped_heads", "tile"),
    ({"order": "tile"}, "grouped", "yes"),
])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
def test_the_probe_finds_the_convention(conventions: dict[str, Any], name: str, answer: str, dtype: DType) -> None:
    assert probe_conventions(following(**conventions), dtype)[name] == answer


def test_a_subject_that_raises_has_no_conventions() -> None:
    never = subject_of(lambda query, key, value, **more: 1 / 0, {"mask", "bias", "causal"})  # noqa: ARG005
    found = probe_conventions(never, DType.FLOAT32)
    assert found == {"hidden_row": "undefined", "hidden_row.mask": "undefined", "hidden_row.bias": "undefined",
                     "causal_alignment": "undefined", "mask_with_causal": "raises", "grouped": "no"}


def test_what_cannot_be_asked_is_left_out() -> None:
    assert set(probe_conventions(subject_of(attention), DType.FLOAT32)) == {"grouped", "grouped_heads"}


def test_a_wrong_subject_is_held_to_the_answer_that_its_first_head_follows() -> None:
    def attend(query: Array, key: Array, value: Array, *, causal: bool = False) -> Array:
        heads = [attention(query[:, [h]], key[:, [h]], value[:, [h]], causal=causal, shift=h)
                 for h in range(query.shape[1])]
        return np.concatenate(heads, axis=1)

    assert probe_conventions(subject_of(attend, {"causal"}), DType.FLOAT32)["causal_alignment"] == "top_left"


def test_a_subject_that_ignores_its_mask_is_held_to_the_mean() -> None:
    def attend(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:  # noqa: ARG001  (the contract's)
        return attention(query, key, value)

    ignoring = subject_of(attend, {"mask"})
    assert probe_conventions(ignoring, DType.FLOAT32)["hidden_row"] == "uniform"


def test_a_wrong_answer_to_fewer_heads_is_an_acceptance() -> None:
    found = probe_conventions(subject_of(lambda query, key, value: query * 0), DType.FLOAT32)  # noqa: ARG005
    assert found == {"grouped": "yes", "grouped_heads": "undefined"}


@pytest.mark.parametrize("limits", [{"grouped": False}, {"self_attention_only": True, "grouped": False}])
def test_a_declared_limit_on_heads_is_believed(limits: dict[str, Any]) -> None:
    assert probe_conventions(subject_of(attention, limits=Limits(**limits)), DType.FLOAT32) == {"grouped": "no"}


@pytest.mark.parametrize(("limits", "found"), [
    ({"single_head": True}, {"hidden_row": "zeros", "hidden_row.mask": "zeros"}),
    ({"min_head_width": 16}, {"hidden_row": "zeros", "grouped": "yes", "grouped_heads": "repeat"}),
    ({"min_scores": 500}, {"mask_with_causal": "both", "causal_alignment": "top_left"}),
    ({"causal_only": True}, {"causal_alignment": "top_left", "grouped_heads": "repeat"}),
    ({"self_attention_only": True}, {"hidden_row": "zeros", "grouped_heads": "repeat"}),
    ({"mask_axes": "BHS"}, {"hidden_row.mask": "zeros", "mask_with_causal": "both"}),
])
def test_a_limited_subject_is_asked_what_its_limits_allow(limits: dict[str, Any], found: dict[str, str]) -> None:
    whole = following()
    limited = replace(whole, declaration=replace(whole.declaration, limits=Limits(**limits)))
    assert found.items() <= probe_conventions(limited, DType.FLOAT32).items()


def test_smoke_passes_a_sound_function_and_asks_five_things() -> None:
    assert [line.has_passed for line in smoke_subject(following())] == [True] * 5


@pytest.mark.parametrize(("function", "detail"), [
    (lambda query, key, value, **more: 1 / 0, "it raises ZeroDivisionError: division by zero"),  # noqa: ARG005
    (lambda query, key, value, **more: None, "The subject returned None where the output should be"),  # noqa: ARG005
    (lambda query, key, value, **more: value * np.nan, "the output holds NaN or infinities"),  # noqa: ARG005
    (lambda query, key, value, **more: value + 1, "the output differs by 1"),  # noqa: ARG005
])
def test_smoke_says_what_is_broken(function: Callable[..., object], detail: str) -> None:
    lines = smoke_subject(subject_of(function, {"mask", "causal"}))
    assert any(detail in line.detail and not line.has_passed for line in lines)


def test_smoke_notices_a_function_that_answers_otherwise_the_second_time() -> None:
    calls = iter(range(100))
    lines = smoke_subject(subject_of(lambda query, key, value, **more: query * 0 + next(calls), {"mask", "causal"}))  # noqa: ARG005
    assert not lines[-1].has_passed
