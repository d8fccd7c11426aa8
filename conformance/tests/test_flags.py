"""A flag that is on by default, or has no default, is given as False by every call that does not ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.subjects.registry import load_target
from helpers.law import checks

DENSE = """
import numpy as np
def attend(query, key, value, {more}):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ value, weights) if return_weights else weights @ value
"""
PACKED = """
import numpy as np
def attend(query, key, value, *, cu_query, cu_key, causal{default}):
    outputs = []
    for own, others in zip(np.split(query, cu_query[1:-1]), np.split(np.arange(len(key)), cu_key[1:-1])):
        logits = np.einsum("thd,shd->hts", own, key[others]) / np.sqrt(query.shape[-1])
        if causal:
            logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-1e30))
        outputs.append(np.einsum("hts,shd->thd", weights / weights.sum(axis=-1, keepdims=True), value[others]))
    return np.concatenate(outputs)
"""
WAYS = ("*, causal=True, return_weights=True", "*, causal, return_weights", "causal, return_weights=1")


def verdict(folder: Path, text: str, clause: str) -> Verdict:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    target = f"{folder}/mine.py:attend"
    subject_run = SubjectRun(load_target(target), Plan((target,), effort=Effort.GLANCE), lambda _: None)
    return subject_run.try_clause(checks()[clause], DType.FLOAT32).verdict


@pytest.mark.family(3)
@pytest.mark.parametrize("more", WAYS)
@pytest.mark.parametrize("clause", ["attention.worked_example", "causal.is_not_ignored", "causal.no_lookahead",
                                    "attention.returned_weights"])
def test_a_function_with_such_flags_is_right_with_and_without_them(tmp_path: Path, clause: str, more: str) -> None:
    assert verdict(tmp_path, DENSE.format(more=more), clause) is Verdict.HELD


@pytest.mark.parametrize("default", ["=True", ""])
def test_a_packed_function_too(tmp_path: Path, default: str) -> None:
    text = PACKED.format(default=default)
    assert verdict(tmp_path, text, "attention.queries_are_independent") is Verdict.HELD
    assert verdict(tmp_path, text.replace("if causal", "if True"), "attention.worked_example") is Verdict.VIOLATED


BACKWARD = """
import numpy as np
def weights_of(query, key, causal):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    logits = np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf) if causal else logits
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
def attend(query, key, value, causal=True):
    return weights_of(query, key, causal) @ value
def attend_backward(query, key, value, grad_output{more}):
    weights = weights_of(query, key, {causal})
    of_weights = grad_output @ value.swapaxes(-1, -2)
    of_logits = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) / np.sqrt(query.shape[-1])
    swapped = of_logits.swapaxes(-1, -2)
    return {{"query": of_logits @ key, "key": swapped @ query, "value": weights.swapaxes(-1, -2) @ grad_output}}
"""


@pytest.mark.parametrize(("more", "causal"), [("", "False"), (", causal=True", "causal")])
def test_a_backward_pass_is_given_such_a_flag_if_it_takes_one(tmp_path: Path, more: str, causal: str) -> None:
    (tmp_path / "mine.py").write_text(BACKWARD.format(more=more, causal=causal), encoding="utf-8")
    assert main(["check", f"{tmp_path}/mine.py:attend", "--profile", "gradients", "--clause", "gradients.of_query",
                 "--dtype", "float64", "--effort", "glance", "-n", "1", "--no-record"]) == 0


def test_one_that_ignores_the_flag_is_found(tmp_path: Path) -> None:
    text = DENSE.format(more=WAYS[0]).replace("if causal", "if True")
    assert verdict(tmp_path, text, "attention.worked_example") is Verdict.VIOLATED


def test_a_flag_that_every_call_gives_needs_no_default(tmp_path: Path) -> None:
    always = DENSE.format(more="*, causal, return_weights=False").replace("if causal", "if True")
    assert verdict(tmp_path, f"{always}attend.causal_only = True\n", "causal.no_lookahead") is Verdict.HELD
