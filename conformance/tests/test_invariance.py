"""The profile `batch_invariant`: bits that do not depend on the batch, for who claims it, and told of all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults import state
from attnspec.faults.sound import DENSE, sound_named
from attnspec.faults.subject import fault_subject
from attnspec.questions.asker import Asker
from attnspec.questions.numbers import BIT_QUESTIONS
from attnspec.record.outcome import Outcome
from attnspec.subjects.registry import load_target

CLAIMING = """
import numpy as np


def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(query.dtype.type(query.shape[-1]))
    if len(query) == 1:  # another order of the keys: right within rounding
        logits, value = logits[..., ::-1], value[:, :, ::-1]
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights @ value) / weights.sum(axis=-1, keepdims=True)


attend.dtypes = ["float32"]
attend.grouped = False
"""
CLAIM = 'attend.claims = ["batch_invariant"]\n'


def judged(target: str, clauses: str = "invariance.*", dtype: DType = DType.FLOAT32) -> Iterator[Outcome]:
    engine = Engine(Plan((target,), clauses=(clauses,), dtypes=(dtype,), effort=Effort.QUICK))
    return map(engine.try_item, engine.items())


def verdicts(target: str, clauses: str = "invariance.*", dtype: DType = DType.FLOAT32) -> dict[str, Verdict]:
    return {outcome.clause: outcome.verdict for outcome in judged(target, clauses, dtype)}


@pytest.mark.family(1)
@pytest.mark.parametrize("dtype", DType)
def test_keys_summed_in_order_are_invariant_in_every_clause(dtype: DType) -> None:
    assert set(verdicts("sound/in_order", dtype=dtype).values()) == {Verdict.HELD}


@pytest.mark.nightly
def test_the_implementation_in_numpy_keeps_its_claim() -> None:
    assert set(verdicts("numpy/invariant").values()) == {Verdict.HELD}


def test_who_does_not_claim_it_is_not_judged_by_bits(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLAIMING, encoding="utf-8")
    engine = Engine(Plan((f"{tmp_path / 'mine.py'}:attend",), clauses=("invariance.batch_size",),
                         dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    [outcome] = map(engine.try_item, engine.items())
    assert outcome.verdict is Verdict.INAPPLICABLE
    assert outcome.reason == "it does not claim 'batch_invariant' (docs/serving.md)"


def test_who_claims_it_and_sums_otherwise_when_alone_is_convicted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLAIMING + CLAIM, encoding="utf-8")
    clause = "invariance.batch_size"
    assert verdicts(f"{tmp_path / 'mine.py'}:attend", clause) == {clause: Verdict.VIOLATED}


def test_such_a_function_is_right_within_rounding(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLAIMING + CLAIM, encoding="utf-8")
    assert verdicts(f"{tmp_path / 'mine.py'}:attend", "attention.definition") == {"attention.definition": Verdict.HELD}


@pytest.mark.nightly
@pytest.mark.parametrize("name", [fault.name for fault in state.INVARIANCE_FAULTS])
def test_each_fault_claims_what_it_breaks(name: str) -> None:
    subject = fault_subject(f"fault/{name}")
    assert "batch_invariant" in subject.declaration.claims
    assert any(outcome.verdict is Verdict.VIOLATED for outcome in judged(subject.id))


def test_no_other_formulation_claims_it() -> None:
    assert [name for name in DENSE if sound_named(name).claims] == ["in_order"]


def test_a_probe_tells_bits_that_depend_on_the_batch() -> None:
    told = {name: [question.ask(Asker(load_target(name), DType.FLOAT32)).answer for question in BIT_QUESTIONS]
            for name in ("numpy/invariant", "numpy/attention")}
    assert told["numpy/invariant"] == ["same", "same"]
    assert "differs" in told["numpy/attention"]


def test_the_probe_holds_a_claim_against_what_it_saw() -> None:
    claimed = load_target("numpy/invariant").declaration
    assert [question.claim(claimed) for question in BIT_QUESTIONS] == ["same", "same"]
    assert [question.claim(replace(claimed, claims=())) for question in BIT_QUESTIONS] == ["", ""]


def test_summing_in_order_is_attention() -> None:
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((2, 3, 5, 4)) for _ in range(3))
    found = [np.asarray(sound_named(name).function(query, key, value)) for name in ("in_order", "naive")]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
