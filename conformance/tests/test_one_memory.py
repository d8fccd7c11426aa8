"""A layer whose second input, the memory, is key and value: attention to another input than its own is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType, Effort, Kind, Verdict
from attnspec.problems.problem import Array
from attnspec.questions.asker import Asker, NotAsked
from attnspec.questions.inputs import MISMATCH_QUESTIONS
from attnspec.subjects.lowering import lower_problem
from attnspec.trials.covering_cases import seed_of
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.judging import Tally, Violated
from attnspec.trials.trial import Trial
from helpers.gradients import problem, verdicts
from helpers.law import checks
from helpers.subjects import subject_of
from test_layer_backward import LAYER

LIMITS = Limits(one_memory=True, grouped=True)
TIED = replace(LIMITS, ties_model_width=True, ties_value_width=True)
Layer = Callable[..., Array]


def attends(query: Array, memory: Array, params: Mapping[str, Array], heads: int, *, values: Array | None = None,
            repeats: Callable[[Array, int], Array] = lambda X, count: np.repeat(X, count, axis=1)) -> Array:
    """Attention to the memory; values: of which the values are made, if not of it."""
    inputs = {"query": query, "key": memory, "value": memory if values is None else values}
    width = params["w_query"].shape[1] // heads
    Q, K, V = ((X @ params[f"w_{name}"] + params[f"b_{name}"]) for name, X in inputs.items())
    count = params["w_key"].shape[1] // width
    Q, K, V = (X.reshape(*X.shape[:2], parts, -1).swapaxes(1, 2) for X, parts in ((Q, heads), (K, count), (V, count)))
    K, V = (repeats(X, heads // count) for X in (K, V))
    logits = Q @ K.swapaxes(-1, -2) / np.sqrt(width).astype(Q.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    attended = (weights / weights.sum(-1, keepdims=True)) @ V
    joined: Array = attended.swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return joined @ params["w_out"] + params["b_out"]


def right(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    del value
    return attends(query, key, params, heads)


def of_query_in_the_values(query: Array, key: Array, value: Array, *, params: Mapping[str, Array],
                           heads: int) -> Array:
    """Where there are as many, each place of the memory has the value of the query's."""
    del value
    return attends(query, key, params, heads, values=query if query.shape == key.shape else None)


def without_the_last(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    """A memory that is longer than the queries loses its last place."""
    del value
    return attends(query, key[:, :-1] if key.shape[1] > query.shape[1] else key, params, heads)


def of_the_first_head(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
    """All query heads read the first key head."""
    del value
    return attends(query, key, params, heads, repeats=lambda X, count: np.repeat(X[:, :1], X.shape[1] * count, axis=1))


def tally_of(function: Layer, clause: str, limits: Limits = LIMITS) -> Tally:
    subject = subject_of(function, kind=Kind.LAYER, limits=limits, conventions={"grouped_heads": "repeat"},
                         claims=("grouped", "layers"))
    check = checks()[clause]
    trial = Trial(check, Evaluator(subject, DType.FLOAT32), Effort.QUICK, seed_of(0, check.domain), lambda _: None)
    return trial.hold()


@pytest.mark.family(1, each="clause")
@pytest.mark.parametrize("limits", [LIMITS, TIED], ids=["free", "tied"])
@pytest.mark.parametrize("clause", ["attention.definition", "attention.additive_in_values", "attention.permuting_keys",
                                    "attention.heads_are_independent", "grouped.definition", "layers.definition",
                                    "layers.cross_attention", "layers.self_attention", "scale.unit_variance"])
def test_attention_to_a_memory_is_judged_by_the_clauses_of_attention(clause: str, limits: Limits) -> None:
    tally = tally_of(right, clause, limits)
    assert tally.failure is None
    assert tally.cases


@pytest.mark.parametrize(("function", "clause"), [
    (of_query_in_the_values, "attention.definition"), (without_the_last, "attention.definition"),
    (of_the_first_head, "grouped.definition")])
def test_a_layer_that_is_right_only_of_its_own_input_is_convicted(function: Layer, clause: str) -> None:
    assert isinstance(tally_of(function, clause).failure, Violated)


def test_key_and_value_are_one_array_beside_another_of_the_query() -> None:
    lowered = lower_problem(problem(), LIMITS)
    assert lowered.key is lowered.value
    assert lowered.query is not lowered.key
    assert dict(lowered.first_of) == {"query": "query", "key": "key", "value": "key"}


def test_a_memory_without_a_value_for_each_key_is_not_put() -> None:
    subject = subject_of(right, kind=Kind.LAYER, limits=LIMITS)
    posed = problem()
    assert subject.refuses(posed.but(value=posed.value[:, :, :-1].copy())) == "one input serves as key and value"


def test_a_memory_is_not_asked_about_more_keys_than_values() -> None:
    asker = Asker(subject_of(right, kind=Kind.LAYER, limits=LIMITS), DType.FLOAT32)
    with pytest.raises(NotAsked, match="one input serves as key and value"):
        MISMATCH_QUESTIONS[0].ask(asker)


@pytest.mark.parametrize("clause", ["layers.definition", "attention.definition"])
def test_key_and_value_hold_the_same_entries_in_every_case(clause: str) -> None:
    def alike(query: Array, key: Array, value: Array, *, params: Mapping[str, Array], heads: int) -> Array:
        assert np.array_equal(key, value)
        return attends(query, key, params, heads)

    assert tally_of(alike, clause).failure is None


OF_MEMORY = """
from pathlib import Path
exec(Path(__file__).with_name("whole.py").read_text())


def memory(query, key, value, *, params, heads, mask=None):
    return layer(query, key, key, params=params, heads=heads, mask=mask)


def memory_backward(query, key, value, grad_output, *, params, heads, mask=None):
    found = layer_backward(query, key, key, grad_output, params=params, heads=heads, mask=mask)
    found["key"] = found["key"] + found.pop("value")
    return found


memory.one_memory, memory.grouped = True, False
memory.conventions = {"hidden_row": "zeros"}
"""


def test_a_memorys_gradient_is_that_of_both_that_it_serves_as(tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(LAYER, encoding="utf-8")
    names = [f"gradients.of_{name}" for name in ("query", "key", "value")]
    for name, source in (("right", OF_MEMORY), ("wrong", OF_MEMORY.replace('found["key"] + found.pop("value")',
                                                                          'found.pop("value") * 0 + found["key"]'))):
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    assert set(verdicts(f"{tmp_path / 'right.py'}:memory", *names).values()) == {Verdict.HELD}
    assert verdicts(f"{tmp_path / 'wrong.py'}:memory", *names)["gradients.of_value"] is Verdict.VIOLATED
