"""Probes as jobs of a run: their source, what is kept of a death, the audit of both kinds, and `attnspec probe`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest
from attnspec.cli.conclusion import format_summary
from attnspec.cli.digest import Digest
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.plan import Item, JobFailure, Plan
from attnspec.probing.jobs import ProbeJob, ProbeJobs
from attnspec.record.events import Done, Found, ItemFinished, RunFinished, SubjectProbed
from attnspec.record.outcome import Outcome
from attnspec.runner.jobs import open_jobs
from attnspec.runner.judge import AUDIT_SOURCE, AuditJobs, with_engine
from helpers.commands import Cli

SUBJECTS = '''
import os, time
import numpy as np

def attend(query, key, value, *, mask=None):
    """Attention."""
    logits = query @ key.swapaxes(-1, -2) / float(np.sqrt(query.shape[-1]))
    logits = logits if mask is None else np.where(mask, logits, -np.inf)
    top = logits.max(axis=-1, keepdims=True, initial=-1e30)
    grown = np.exp(logits - top)
    total = grown.sum(axis=-1, keepdims=True)
    return grown / np.where(total == 0, 1, total) @ value

def dropping(query, key, value, *, mask=None):
    return attend(query, key, value, mask=None if mask is None else np.logical_not(mask))

def dying(query, key, value, *, mask=None):
    return os._exit(9) if mask is not None and mask.dtype != bool else attend(query, key, value, mask=mask)

def waiting(query, key, value, *, mask=None):
    return time.sleep(60) if mask is not None and mask.dtype != bool else attend(query, key, value, mask=mask)

narrow = lambda query, key, value: attend(query, key, value)
narrow.dtypes = ["float64"]
'''


@pytest.fixture
def probe(cli: Cli, here: Path) -> Cli:
    """`attnspec probe mine.py:NAME`."""
    (here / "mine.py").write_text(SUBJECTS, encoding="utf-8")
    return lambda name, *words: cli("probe", f"mine.py:{name}", "-n", "1", "--dtype", "float32", *words)


def test_nothing_against_the_claims_is_exit_code_0(probe: Cli) -> None:
    code, out, err = probe("attend", "--no-record")
    assert (code, err) == (0, "")
    assert out.startswith("\nmine.py:attend, float32\n  determinism.twice  ")
    assert "keep  (as claimed)" in out
    assert out.endswith(" answers, none against the manifest. (exit code 0)\n")


def test_a_contradiction_is_marked_and_exit_code_1(probe: Cli) -> None:
    code, out, _ = probe("dropping", "--no-record")
    marked = [line for line in out.splitlines() if line.startswith("! ")]
    assert code == 1
    assert [line.split("  [")[0].split() for line in marked] == [
        ["!", "mask.polarity", "drop,", "but", "the", "manifest", "claims", "keep"]]
    assert out.endswith(" answers, 1 of them against the manifest. (exit code 1)\n")


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "answer", "detail"), [
    ("dying", "dies", "the process died while the implementation ran (exit code 9)"),
    ("waiting", "hangs", "the implementation had not returned after 1 s")])
def test_a_death_is_the_answer_to_its_question_and_the_others_are_asked(
    probe: Cli, name: str, answer: str, detail: str,
) -> None:
    code, out, _ = probe(name, "--no-record", "--deadline", "1")
    [line] = [line for line in out.splitlines() if "mask.float" in line]
    assert code == 0
    assert line.split()[1] == answer
    assert line.split("  ")[-1] == detail
    assert "mask.polarity" in out
    assert "zero.keys" in out


def test_the_record_holds_what_was_found(probe: Cli) -> None:
    code, out, _ = probe("dropping", "--json", "--no-record")
    lines = [json.loads(line) for line in out.splitlines()]
    [probed] = [line for line in lines if "found" in line]
    answers = {found["question"]: found["answer"] for found in probed["found"]}
    assert (code, probed["subject"], answers["mask.polarity"]) == (1, "mine.py:dropping", "drop")


@pytest.mark.nightly
def test_a_dtype_that_a_function_does_not_support_is_not_asked(probe: Cli) -> None:
    code, out, _ = probe("narrow", "--no-record")
    assert (code, out) == (2, "\n0 answers, none against the manifest. (exit code 2)\n")


PLAN = with_engine(Plan(("fault/switch_mask_dropped",), dtypes=(DType.FLOAT32,), clauses=("attention.shape",)),
                  engine="attnspec.engine.engine:Engine", recipe="")
WRONG = Found("mask.polarity", "", "drop", claimed="keep")
RIGHT = replace(WRONG, answer="keep")


def probed(*found: Found, lost: str = "") -> SubjectProbed:
    return SubjectProbed("mine", "", DType.FLOAT32, found, lost=lost)


def finished(verdict: Verdict) -> ItemFinished:
    return ItemFinished(Outcome("mine", "attention.shape", DType.FLOAT32, Level.MUST, verdict))


def test_a_subject_is_probed_at_every_dtype_and_its_variants_at_the_first() -> None:
    plan = replace(PLAN, dtypes=(DType.FLOAT64, DType.FLOAT32))
    assert [(each.part, each.dtype) for each in ProbeJobs(plan).items()] == [
        ("probe", "float64"), ("probe", "float32"), ("probe[other_path]", "float32")]


@pytest.mark.parametrize(("loss", "lost"), [
    (JobFailure("the run was interrupted"), "the run was interrupted"),
    (JobFailure("the process died", Verdict.CRASHED), "the process died"),
])
def test_a_probe_that_never_began_is_lost(loss: JobFailure, lost: str) -> None:
    assert ProbeJobs(PLAN).record_loss(ProbeJob("mine", "", "float32"), loss) == probed(lost=lost)


@pytest.mark.parametrize(("done", "interrupted", "code"), [
    ([probed(RIGHT)], False, 0), ([probed(RIGHT), probed(WRONG)], False, 1),
    ([probed(WRONG), probed(lost="x")], False, 1),
    ([probed(RIGHT), probed(lost="x")], False, 2), ([probed(WRONG)], True, 2), ([probed()], False, 2), ([], False, 2)])
def test_the_exit_code_of_a_probe(done: list[Done], interrupted: bool, code: int) -> None:
    assert ProbeJobs(PLAN).conclude(done, interrupted=interrupted).exit_code == code


@pytest.mark.parametrize(("done", "interrupted", "code"), [
    ([finished(Verdict.HELD), probed(RIGHT)], False, 0), ([finished(Verdict.HELD), probed(WRONG)], False, 1),
    ([finished(Verdict.VIOLATED), probed(RIGHT)], False, 1), ([finished(Verdict.HELD), probed(lost="x")], False, 2),
    ([finished(Verdict.VIOLATED), probed(lost="x")], False, 1), ([finished(Verdict.NOT_RUN), probed(WRONG)], False, 1),
    ([finished(Verdict.HELD), probed(WRONG)], True, 2), ([finished(Verdict.HELD)], False, 0)])
def test_the_exit_code_of_an_audit(done: list[Done], interrupted: bool, code: int) -> None:
    audit = AuditJobs(PLAN)
    end = audit.conclude(done, interrupted=interrupted)
    assert end.exit_code == code
    assert end.counts.get("contradictions", 0) == sum(isinstance(each, SubjectProbed) and WRONG in each.found
                                                      for each in done)


def test_an_audit_probes_a_subject_right_after_its_trials() -> None:
    targets = ("fault/switch_mask_dropped", "sound/naive")
    items = open_jobs(AUDIT_SOURCE, replace(PLAN, targets=targets)).items()
    assert [(each.target, isinstance(each, Item)) for each in items] == [
        (targets[0], True), (targets[0], False), (targets[0], False), (targets[1], True), (targets[1], False)]


def test_an_audit_tells_contradictions_and_why_the_exit_code_is_1() -> None:
    digest = Digest()
    for event in (finished(Verdict.HELD), replace(probed(RIGHT, WRONG), variant="eager"), probed(lost="it died"),
                  RunFinished("", 1.0, {}, 1)):
        digest.add(event)
    lines = list(format_summary(digest, ()))
    assert click.unstyle(lines[-1]) == "Does not conform: 1 answer against the manifest (mine). (exit code 1)"
    told = lines[lines.index("Answers against the manifest:") + 1]
    assert told == "  mine [eager], float32: mask.polarity drop, not keep"
    assert "Not probed: mine, float32: it died" in lines
    assert digest.count_done("mine") == 3
