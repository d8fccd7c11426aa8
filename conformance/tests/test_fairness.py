"""What is said of registered libraries: documented choices, findings with cases of their own, variants' own paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.nouns import Verdict
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record

MANIFEST = """\
library: Mine
distribution: numpy
requires: numpy
subjects:
  - id: attention
    title: My attention
    function: adapter:attend
    dtypes: [float32]
"""
FINDING = """\
findings:
  - id: a_finding
    says: Its bias counts twice.
    subjects: [attention]
    clauses: [{clauses}]
    harm: {harm}
    script: shows.py
    documented: '"The bias is added twice.", https://mine.example/bias'
"""
ADAPTER = """\
import sys

import numpy as np


def attend(query, key, value, *, bias=None):
    logits = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1], dtype=query.dtype)
    if bias is not None:
        logits = logits + bias
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


def fast(query, key, value, *, bias=None):
    entries = np.abs(query[query != 0])
    if entries.size and entries.max() > 64 * entries.min():
        print("attnspec: path not taken", file=sys.stderr)
        return attend(query, key, value, bias=bias)
    return attend(query, key, value)


def twice(query, key, value, *, bias=None):
    return attend(query, key, value, bias=None if bias is None else 2 * bias)
"""
REPLAY = "B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=integers;with=bias;bias=integers;seed=1"


@pytest.fixture
def mine(here: Path) -> Path:
    """The folder of a library that has one subject."""
    library = here / "all" / "mine"
    library.mkdir(parents=True)
    (library / "manifest.yaml").write_text(MANIFEST + "    limits: {grouped: false}\n")
    (library / "adapter.py").write_text(ADAPTER)
    (library / "shows.py").write_text("raise SystemExit(1)\n")
    return library


def checked(*options: str) -> tuple[int, tuple[Outcome, ...]]:
    """The exit code of a check of the subject, and its outcomes."""
    code = main(["check", "mine/attention", "--implementations", "all", "-n", "1", "--record", "r.jsonl", *options])
    return code, read_record(Path("r.jsonl")).outcomes


def change(path: Path, old: str, new: str) -> None:
    """Write another text into a file."""
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_documented_choice_is_told_with_its_page_and_is_no_failure(
        mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(mine / "manifest.yaml", "adapter:attend", "adapter:twice")
    (mine / "findings.yaml").write_text(FINDING.format(clauses="bias.alone", harm="documented_choice"))
    code, (outcome,) = checked("--clause", "bias.alone", "--effort", "glance")
    out = capsys.readouterr().out
    assert (code, outcome.verdict, outcome.finding) == (0, Verdict.EXPECTED, "mine/a_finding")
    assert "Conforms, but for 1 documented choice (mine/a_finding)." in out
    assert "https://mine.example/bias" in out


def test_what_is_documented_and_no_choice_stays_a_failure(mine: Path) -> None:
    change(mine / "manifest.yaml", "adapter:attend", "adapter:twice")
    (mine / "findings.yaml").write_text(FINDING.format(clauses="bias.alone", harm="wrong_answer"))
    code, (outcome,) = checked("--clause", "bias.alone", "--effort", "glance")
    assert (code, outcome.verdict) == (1, Verdict.VIOLATED)


@pytest.mark.nightly
def test_a_variant_that_leaves_its_path_is_put_each_keyword_on_it(mine: Path) -> None:
    change(mine / "manifest.yaml", "    limits:", "    variants: {fast: {function: 'adapter:fast'}}\n    limits:")
    code, (outcome,) = checked("--clause", "layers.switches", "--effort", "quick")
    assert code == 1
    assert outcome.evidence is not None
    assert "with=bias" in outcome.evidence.recipe


def test_it_is_told_in_how_many_cases_a_variant_took_its_path(mine: Path) -> None:
    change(mine / "manifest.yaml", "    limits:", "    variants: {fast: {function: 'adapter:fast'}}\n    limits:")
    whole = "    return attend(query, key, value, bias=bias)\n"
    change(mine / "adapter.py", "    return attend(query, key, value)\n", whole)
    code, (outcome,) = checked("--clause", "layers.switches", "--effort", "quick")
    assert (code, outcome.verdict) == (0, Verdict.HELD)
    (reading,) = outcome.readings
    assert reading.quantity == "path of fast"
    taken, every = map(int, str(reading.value).split(" of "))
    assert 0 < taken < every


def test_a_findings_own_case_is_put_before_all_others(mine: Path) -> None:
    change(mine / "manifest.yaml", "adapter:attend", "adapter:twice")
    case = f"    replays: ['mine/attention bias.alone float32 {REPLAY}']\n"
    (mine / "findings.yaml").write_text(FINDING.format(clauses="bias.alone", harm="wrong_answer") + case)
    _, (outcome,) = checked("--clause", "bias.alone", "--effort", "glance")
    assert outcome.evidence is not None
    assert outcome.evidence.recipe == REPLAY


@pytest.mark.family(1)
@pytest.mark.parametrize(("case", "complaint"), [
    ("mine/attention bias.alone", "should have lines of four parts, 'SUBJECT CLAUSE DTYPE RECIPE'"),
    (f"mine/attention bias.lone float32 {REPLAY}", "'bias.lone' is not a known clause. Did you mean 'bias.alone'"),
    ("mine/attention bias.alone float32 B1", "findings.yaml:2: 'case': ")])
def test_a_case_that_no_run_can_be_put_is_named_with_its_place(
        mine: Path, capsys: pytest.CaptureFixture[str], case: str, complaint: str) -> None:
    text = FINDING.format(clauses="bias.alone", harm="wrong_answer") + f"    replays: ['{case}']\n"
    (mine / "findings.yaml").write_text(text)
    assert main(["lint", "--implementations", "all"]) == 2
    assert complaint in capsys.readouterr().out


def test_a_serious_finding_that_no_clause_has_seen_is_a_mistake(
        mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (mine / "findings.yaml").write_text(FINDING.format(clauses="bias.alone", harm="wrong_answer"))
    checked("--clause", "bias.alone", "--effort", "glance")  # it holds: nothing counts twice
    assert main(["lint", "--implementations", "all", "--audit", "r.jsonl"]) == 2
    assert "'mine/a_finding' says: silently wrong in another way at everyday settings; but no clause fails of it" in (
        capsys.readouterr().out)


@pytest.mark.nightly
def test_no_record_is_asked_for_a_finding_of_some_processors(mine: Path) -> None:
    finding = FINDING.format(clauses="bias.alone", harm="wrong_answer")
    (mine / "findings.yaml").write_text(finding + "    processor: AVX512_BF16\n")
    checked("--clause", "bias.alone", "--effort", "glance")
    assert main(["lint", "--implementations", "all", "--audit", "r.jsonl"]) == 0


def test_a_convention_that_is_declared_is_asked_of_the_function(mine: Path) -> None:
    change(mine / "manifest.yaml", "    limits: {grouped: false}",
           "    limits: {grouped: true}\n    claims: [grouped]\n    conventions: {grouped_heads: repeat}")
    change(mine / "adapter.py", "    logits = query",
           "    key, value = (np.concatenate([each] * (query.shape[1] // each.shape[1]), 1) for each in (key, value))\n"
           "    logits = query")
    _, (outcome,) = checked("--clause", "grouped.order_is_repeat", "--effort", "glance")
    assert outcome.verdict is Verdict.VIOLATED
    assert outcome.evidence is not None
    assert "grouped_heads is 'tile'" in outcome.evidence.sentence
