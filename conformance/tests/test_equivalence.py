"""A fault that is declared equivalent at a dtype cannot be told from rounding there, by any clause."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from attnspec.core.keywords import UNCOMMON
from attnspec.core.nouns import DType
from attnspec.faults import catalogue
from attnspec.faults.catalogue import fault_named
from attnspec.faults.fault import Fault
from attnspec.faults.staged import staged
from attnspec.trials.compile import Check
from evaluation.power.equivalence import declared_equivalents, excess
from helpers.law import checks

SAMPLE = 2
"""Cases a clause: what the issue's whole run does with thirty, on every clause."""


@functools.cache
def definitions() -> dict[str, Check]:
    """The clauses that look at everything a wrong number could show in."""
    names = ("attention.definition", "attention.weights_definition", "scale.logits_read_out", "numerics.small_numbers",
             "rotary.definition")
    return {name: checks()[name] for name in names}


@pytest.mark.family(8)
@pytest.mark.parametrize(("fault", "dtype"), list(declared_equivalents()),
                         ids=[f"{fault.name}-{dtype.value}" for fault, dtype in declared_equivalents()])
def test_a_declared_equivalent_is_convicted_by_no_definition(fault: Fault, dtype: DType) -> None:
    found = excess(fault, dtype, checks=definitions(), cases=SAMPLE)
    assert not found.convicts, f"{found.clause}: {found.recipe}"
    assert found.measured
    assert found.measured.margin <= 1


def test_a_declared_equivalent_is_convicted_by_no_clause() -> None:
    found = excess(fault_named("scale_off_1e6"), DType.BFLOAT16, checks=checks(), cases=1)
    assert not found.convicts, f"{found.clause}: {found.recipe}"
    common = [check for check in checks().values() if not check.clause.needs & set(UNCOMMON)]
    assert found.cases > len(common) / 2


def test_a_wrong_declaration_is_found_out_with_the_clause_and_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    lying = replace(fault_named("scale_off_1e2"), equivalents={DType.FLOAT32: "it is not"})
    monkeypatch.setitem(catalogue.CATALOGUE, lying.name, lying)
    found = excess(lying, DType.FLOAT32, checks=definitions())
    assert found.convicts
    assert found.clause == "attention.definition"
    assert found.measured
    assert found.measured.margin > 1
    assert "seed=" in found.recipe


def test_one_that_raises_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> float:
        raise ValueError("not at this dtype")

    raising = replace(fault_named("scale_none"), make=staged(scale=refuses))
    monkeypatch.setitem(catalogue.CATALOGUE, raising.name, raising)
    found = excess(raising, DType.FLOAT32, checks=definitions(), cases=SAMPLE)
    assert found.convicts
    assert found.measured is None
    assert found.recipe
