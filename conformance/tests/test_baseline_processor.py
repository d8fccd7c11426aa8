"""A known failure that only some processors bring out is expected on these, and not missed on others."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.outcome import Outcome
from attnspec.subjects import baseline
from attnspec.subjects.baseline import processor_features, read_baseline, read_entries, write_baseline

KNOWN = """\
known:
- {subject: a/one, clause: numerics.typical_error, dtype: float16, verdict: violated, processor: avx512_fp16}
- {subject: a/one, clause: causal.definition, dtype: float16, verdict: violated}
"""


@pytest.fixture
def known(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list, read on a processor that has these features."""
    monkeypatch.setattr(baseline, "processor_features", lambda: frozenset(request.param))
    (tmp_path / "known.yaml").write_text(KNOWN, encoding="utf-8")
    return tmp_path / "known.yaml"


def outcome(clause: str, verdict: Verdict) -> Outcome:
    return Outcome("a/one", clause, DType.FLOAT16, Level.MUST, verdict)


@pytest.mark.parametrize(("known", "clauses"), [
    (["avx512_fp16"], ["numerics.typical_error", "causal.definition"]), ([], ["causal.definition"]),
], indirect=["known"])
def test_what_needs_a_processor_is_expected_there_alone(known: Path, clauses: list[str]) -> None:
    assert [each.clause for each in read_baseline(known)["a/one"]] == clauses


@pytest.mark.parametrize(("known", "verdict", "processors"), [
    ([], Verdict.HELD, {"numerics.typical_error": "avx512_fp16"}),  # what another machine sees is no affair of this one
    (["avx512_fp16"], Verdict.HELD, {}),
    (["avx512_fp16"], Verdict.VIOLATED, {"numerics.typical_error": "avx512_fp16"}),
    ([], Verdict.VIOLATED, {"numerics.typical_error": ""}),  # it does not hang on the processor
], indirect=["known"])
def test_an_update_keeps_what_other_processors_bring_out(
        known: Path, verdict: Verdict, processors: dict[str, str]) -> None:
    write_baseline(known, [outcome("numerics.typical_error", verdict), outcome("causal.definition", Verdict.HELD)],
                   strict=False)
    assert {entry.clause: entry.processor for entry in read_entries(known)} == processors


@pytest.mark.parametrize(("text", "found"), [
    ("processor\t: 0\nflags\t\t: fpu avx2 avx512_fp16\nbugs\t: none\n", {"fpu", "avx2", "avx512_fp16"}),
    ("processor\t: 0\nFeatures\t: fp asimd\n", {"fp", "asimd"}), ("", set()), (None, set())])
def test_the_processor_says_what_it_can_do(tmp_path: Path, text: str | None, found: set[str]) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert processor_features(tmp_path / "cpuinfo") == found
