"""The benchmark of failing checks: which faults it poses, as which files, and what it makes of the seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType
from failing import Costs, Pair, import_lines, posable_targets, signature_of, table


def test_a_seed_poses_the_same_faults_always_and_mistakes_come_last() -> None:
    posed = posable_targets(40, 1)
    assert len(posed) == 40
    assert posed == posable_targets(40, 1) != posable_targets(40, 2)
    assert sum("mistakes.py:" in each for each in posed) == sum("mistakes.py:" in each for each in posed[-8:]) == 8


@pytest.mark.parametrize(("target", "keywords"), [
    ("fault/key_first_dropped", ()), ("fault/softcap_softsign", ("softcap",)),
    ("conformance/benchmarks/mistakes.py:mask_of_the_first_entry", ("mask",))])
def test_both_functions_of_a_pair_take_what_the_fault_needs(
        target: str, keywords: tuple[str, ...], tmp_path: Path) -> None:
    signature = signature_of(target, (DType.FLOAT32,))
    assert signature.keywords == keywords
    for of in (target, ""):
        names: dict[str, object] = {}
        exec(signature.file_text(import_lines(of), tmp_path / "imports"), names)
        assert names["attend"].__kwdefaults__ == (dict.fromkeys(keywords) or None)  # type: ignore[attr-defined]
        assert names["attend"].dtypes == ["float32"]  # type: ignore[attr-defined]
    assert len((tmp_path / "imports").read_text(encoding="utf-8").split()) == 2


def costs(cpu: float, first: float = 0.0, *, has_cause: bool = True) -> Costs:
    return Costs(cpu, cpu, first, first, has_cause, "")


def test_the_figures_are_medians_of_pairs() -> None:
    pairs = [Pair("fault/a", costs(12, 3), costs(10)), Pair("fault/b", costs(30, 2, has_cause=False), costs(20)),
             Pair("fault/c", costs(8, 4), costs(10))]
    told = list(table(pairs))
    assert "costs (median) 1.20 of the right one" in told[0]
    assert "2 cost at most 1.3" in told[1]
    assert "after (median) 0.30 of a conforming check" in told[2]
    assert "2 with a likely cause" in told[3]
