"""Variants that compile: each new case costs a run of a compiler, so they are asked seldom, and still convicted."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.diagnosis.inputs import DiagnosticInputs
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.engine.engine import Engine
from attnspec.numerics.precision import declared_precision
from attnspec.record.outcome import Outcome
from attnspec.runner.jobs import open_jobs
from attnspec.runner.judge import ENGINE_CLASS, TRIAL_SOURCE, with_engine
from attnspec.subjects.registry import load_target
from attnspec.trials.sizes import COMPILED_OPENINGS

MANIFEST = """
library: Mine
subjects:
  - id: attention
    title: Attention with a compiled path
    function: attention:attend
    conventions: {hidden_row: zeros, causal_alignment: top_left, mask_with_causal: both}
    limits: {grouped: false}
    variants:
      plain: {function: "attention:attend"}
      compiled: {function: "attention:other", compiles: COMPILES}
"""
ADAPTER = """
import numpy as np

def attend(query, key, value, *, mask=None, bias=None, causal=False):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    logits = logits if bias is None else logits + bias
    visible = np.tril(np.ones(logits.shape[-2:], bool), 0 if causal else logits.shape[-1])
    visible = np.broadcast_to(visible if mask is None else visible & mask, logits.shape)
    logits = np.where(visible, logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total)) @ value

def other(query, key, value, *, mask=None, bias=None, causal=False):
    with open(__file__ + ".calls", "a") as told:
        print(query.tobytes().hex(), file=told)
    EXPRESSION
"""
SOUND = "return attend(query, key, value, mask=mask, bias=bias, causal=causal)"


def engine(folder: Path, expression: str = SOUND, *, compiles: str = "true", **plan: object) -> Engine:
    """An engine for a library of one subject, whose variant answers with this expression."""
    library = folder / f"mine_{folder.name}"
    library.mkdir(exist_ok=True)
    (library / "manifest.yaml").write_text(MANIFEST.replace("COMPILES", compiles))
    (library / "attention.py").write_text(ADAPTER.replace("EXPRESSION", expression))
    return Engine(Plan((f"{library.name}/attention",), implementations=(str(folder),), clauses=("layers.switches",),
                      **{"effort": Effort.QUICK, **plan}))  # type: ignore[arg-type]  # fields of a plan


def judged(trial: Engine) -> Outcome:
    return trial.try_item(Item(trial.plan.targets[0], "layers.switches", "float32"))


def problems_asked(trial: Engine) -> int:
    """Of how many problems the variant was asked."""
    [told] = Path(trial.plan.implementations[0]).glob("*/attention.py.calls")
    return len(set(told.read_text().splitlines()))


@pytest.mark.family(1)
@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.DEFAULT, Effort.THOROUGH])
@pytest.mark.parametrize("expression", [
    "return attend(query, key, value, mask=mask, bias=bias)",
    "return attend(query, key, value, mask=mask, causal=causal)",
    "return attend(query, key, value, bias=bias, causal=causal)",
    "return attend(query * 1.01, key, value, mask=mask, bias=bias, causal=causal)",
], ids=["no causal", "no bias", "no mask", "another scale"])
def test_a_compiled_variant_that_is_wrong_is_convicted(tmp_path: Path, expression: str, effort: Effort) -> None:
    outcome = judged(engine(tmp_path, expression, effort=effort))
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.reason.startswith("output with compiled should be that without")


@pytest.mark.nightly
def test_the_failing_case_is_repeated_with_the_variant(tmp_path: Path) -> None:
    trial = engine(tmp_path, "return attend(query, key, value, mask=mask, bias=bias)")
    evidence = judged(trial).evidence
    assert evidence is not None
    again = trial.replay(Item(trial.plan.targets[0], "layers.switches", "float32"), evidence.recipe)
    assert again.verdict is Verdict.VIOLATED


@pytest.mark.family(1)
@pytest.mark.parametrize(("effort", "most"), [
    (Effort.QUICK, COMPILED_OPENINGS), (Effort.DEFAULT, 30 // COMPILED_OPENINGS),
    pytest.param(Effort.THOROUGH, 150 // COMPILED_OPENINGS, marks=pytest.mark.nightly)])
def test_a_variant_that_compiles_is_asked_of_the_first_cases(tmp_path: Path, effort: Effort, most: int) -> None:
    trial = engine(tmp_path, effort=effort)
    outcome = judged(trial)
    assert outcome.verdict is Verdict.HELD
    assert 0 < problems_asked(trial) <= most < outcome.cases + outcome.no_claims


def test_a_variant_that_does_not_compile_is_asked_of_every_case(tmp_path: Path) -> None:
    trial = engine(tmp_path, compiles="false")
    assert judged(trial).readings == ()
    assert problems_asked(trial) > COMPILED_OPENINGS


@pytest.mark.parametrize(("compiles", "put"), [("true", {"", "plain"}), ("false", {"", "plain", "compiled"})])
def test_a_diagnosis_does_not_compile(tmp_path: Path, compiles: str, put: set[str]) -> None:
    trial = engine(tmp_path, compiles=compiles)
    subject = load_target(trial.plan.targets[0], folders=trial.plan.implementations)
    precision = declared_precision(None, DType.FLOAT32)
    panel = DiagnosticInputs(ComparisonStandard(subject, precision, subject.declaration.conventions, Aspect.NONE),
                             DType.FLOAT32)
    assert {step.variant for step in panel.put_to(subject)} == put


def test_workers_begin_with_what_asks_variants_that_compile() -> None:
    plan = Plan(("jax/dot_product_attention_jit", "numpy/attention"), dtypes=(DType.FLOAT32,))
    items = list(open_jobs(TRIAL_SOURCE, with_engine(plan, engine=ENGINE_CLASS, recipe="")).items())
    as_told = list(Engine(plan).items())
    assert items[0].clause == "layers.switches" != as_told[0].clause
    assert sorted(items) == sorted(as_told)
    assert [item for item in items if item.target == "numpy/attention"] == [
        item for item in as_told if item.target == "numpy/attention"]
