"""`attnspec audit`: verdicts, answers, findings, and who could not run, all in one record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.errors import ManifestError
from attnspec.core.nouns import Verdict
from attnspec.record.read import RunRecord, read_record
from attnspec.subjects.findings import known_findings
from attnspec.subjects.registry import load_target
from helpers.places import CHECKOUT

MANIFEST = """
library: Mine
distribution: numpy
homepage: https://example.org
issues: https://example.org/issues
install: pip install mine
subjects:
  - {id: values, title: Nothing but values, function: adapter:attend, note: It attends to nothing.}
  - {id: elsewhere, title: Elsewhere, function: adapter:attend, requires: nowhere_to_be_found}
"""
FINDINGS = """
findings:
  - id: no_attention
    says: It returns its values.
    subjects: ["val*"]
    clauses: [attention.definition]
    script: findings/no_attention.py
    documented: "no"
"""
ADAPTER = """
import numpy as np

def attend(query, key, value):
    return np.broadcast_to(value.mean(axis=2, keepdims=True), (*query.shape[:3], value.shape[3])).copy()
"""
SCRIPT = "raise SystemExit(1)\n"


@pytest.fixture
def mine(here: Path) -> Path:
    library = here / "all" / "mine"
    (library / "findings").mkdir(parents=True)
    for name, text in {"manifest.yaml": MANIFEST, "findings.yaml": FINDINGS, "adapter.py": ADAPTER,
                       "findings/no_attention.py": SCRIPT}.items():
        (library / name).write_text(text, encoding="utf-8")
    return library


def audit(*words: str) -> RunRecord:
    assert main(["audit", "--library", "mine", "--implementations", "all", "--effort", "glance", "--dtype", "float32",
                 "-n", "1", "--record", "r.jsonl", *words]) == 1
    return read_record(Path("r.jsonl"))


@pytest.mark.usefixtures("mine")
def test_an_audit_holds_verdicts_answers_findings_and_who_could_not_run() -> None:
    record = audit()
    assert {outcome.subject for outcome in record.outcomes} == {"mine/values"}  # of this library alone
    assert any(outcome.verdict is Verdict.VIOLATED for outcome in record.outcomes)
    assert [(probed.subject, bool(probed.found)) for probed in record.probes] == [("mine/values", True)]
    assert record.header.absent == ({
        "subject": "mine/elsewhere", "library": "Mine", "title": "Elsewhere",
        "reason": "nowhere_to_be_found is not installed. Install the distribution that holds this module."},)
    [card] = [known.card for known in record.subjects]
    assert (card.library, card.install, card.issues, card.note) == (
        "Mine", "pip install mine", "https://example.org/issues", "It attends to nothing.")
    assert [(finding.id, finding.script) for finding in card.findings] == [("mine/no_attention", SCRIPT)]


@pytest.mark.nightly
@pytest.mark.usefixtures("mine")
def test_where_clauses_are_asked_for_nothing_is_probed() -> None:
    record = audit("--clause", "attention.definition")
    assert [outcome.clause for outcome in record.outcomes] == ["attention.definition"]
    assert not record.probes


@pytest.mark.nightly
@pytest.mark.usefixtures("mine")
def test_who_is_left_out_is_not_judged() -> None:
    Path("all/mine/manifest.yaml").write_text(MANIFEST.replace(", requires: nowhere_to_be_found", ""), encoding="utf-8")
    record = audit("--clause", "attention.definition", "--without", "mine/else*")
    assert {outcome.subject for outcome in record.outcomes} == {"mine/values"}


def test_a_finding_is_told_of_those_it_is_about(mine: Path) -> None:
    (mine / "findings.yaml").write_text(FINDINGS.replace("val*", "elsewhere"), encoding="utf-8")
    assert not load_target("mine/values", folders=(mine.parent,)).findings


def test_a_finding_knows_in_which_language_its_script_is() -> None:
    folder = CHECKOUT / "implementations"
    told = {each.language for library, subject in (("onnxruntime_web", "attention"), ("onnxruntime", "attention"))
            for each in known_findings(folder / library, f"{library}/{subject}", "", "cpu")}
    assert told == {"javascript", "python"}


def test_a_finding_without_its_script_is_told_with_its_place(mine: Path) -> None:
    (mine / "findings" / "no_attention.py").unlink()
    command = [sys.executable, "-m", "attnspec", "smoke", "mine/values", "--implementations", "all"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=mine.parent.parent)
    assert ("all/mine/findings.yaml:7: 'script' of a finding names no file: "
            "there is no all/mine/findings/no_attention.py.") in said.stdout + said.stderr


def test_a_finding_says_on_which_cases_it_shows_by_known_keywords(mine: Path) -> None:
    (mine / "findings.yaml").write_text(f"{FINDINGS.rstrip()}\n    cases: {{keywords: [casual]}}\n", encoding="utf-8")
    with pytest.raises(ManifestError, match=r"'casual' is not a known keyword of a subject\. Did you mean 'causal'\?"):
        load_target("mine/values", folders=(mine.parent,))
