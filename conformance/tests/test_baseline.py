"""A baseline: written by the first run, heeded by every later one, changed only on request."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from attnspec.cli import main
from attnspec.cli.baseline import held_against
from attnspec.cli.check import check
from attnspec.cli.digest import Digest
from attnspec.cli.lint import check_baselines
from attnspec.core.declaration import Declaration, Deviation
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, Level, Novelty, Verdict
from attnspec.core.plan import PUT_ONCE, Plan
from attnspec.engine.engine import Engine
from attnspec.record.events import ItemFinished, RunFinished
from attnspec.record.outcome import Change, Outcome, ProbedConvention
from attnspec.record.read import RunRecord
from attnspec.report.comparison import describe_exceptions
from attnspec.report.summary import make_badge
from attnspec.runner.jobs import exit_code
from attnspec.spec.load import load_spec
from attnspec.subjects.baseline import (
    Conditions,
    changed_convention,
    index_conventions,
    read_baseline,
    read_conventions,
    read_entries,
    read_tried,
    with_baseline,
    write_baseline,
)
from attnspec.trials.evaluator import Evaluator
from click.testing import CliRunner
from helpers.records import run_started

THEIRS = """
import numpy as np
def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], {shift}), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)
"""
CLAUSE = "causal.no_lookahead"


def judged(folder: Path, *more: str, shift: int) -> tuple[int, str]:
    """The exit code and the output of a gate on an attention whose causal mask is so many keys too wide."""
    (folder / "theirs.py").write_text(THEIRS.format(shift=shift), encoding="utf-8")
    return checked("--clause", CLAUSE, "--effort", "quick", *more)


def checked(*more: str) -> tuple[int, str]:
    """The exit code and the output of a check of theirs.py in float32, held against known.yaml."""
    arguments = ["theirs.py:attend", "--dtype", "float32", "--no-record", "-n", "1", "--baseline", "known.yaml", *more]
    done = CliRunner().invoke(check, arguments, standalone_mode=False)
    assert done.exception is None
    code: Any = done.return_value
    return code, done.output


def test_a_gate_knows_what_it_knew_when_it_was_set_up(here: Path) -> None:
    code, output = judged(here, shift=1)
    assert code == 1  # a file that nobody committed must not make anybody's gate green
    assert ("baseline: wrote known.yaml with 1 known failure. Commit it: from now on the gate fails only where "
            "something changes") in output
    written = (here / "known.yaml").read_text(encoding="utf-8")

    assert judged(here, shift=1)[0] == 0  # known

    code, output = judged(here, shift=0)  # mended: good news stops nobody, and is told
    assert code == 0
    assert "; the only listed failure is mended: renew the list (--update-baseline). (exit code 0)" in output
    assert "mended: theirs.py:attend causal.no_lookahead (float32) holds now" in output
    assert "If a change is intended, run with --update-baseline" in output
    assert (here / "known.yaml").read_text(encoding="utf-8") == written  # on request only

    code, output = judged(here, "--update-baseline", shift=0)
    assert code == 0  # what is mended is told; the next run is held against the new list
    assert "mended: theirs.py:attend causal.no_lookahead (float32) holds now" in output
    assert read_baseline(here / "known.yaml") == {}
    assert "mended" not in judged(here, "--update-baseline", shift=0)[1]
    code, output = judged(here, shift=1)
    assert code == 1
    assert "regression: theirs.py:attend causal.no_lookahead (float32) is violated" in output
    assert "; it did not fail when the list was made" in output


def test_only_what_gates_is_written(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    outcomes = [Outcome("mine:f", clause, DType.FLOAT32, level, verdict, "moved") for clause, level, verdict in (
        ("a.must", Level.MUST, Verdict.VIOLATED), ("a.should", Level.SHOULD, Verdict.VIOLATED),
        ("a.may", Level.MAY, Verdict.VIOLATED), ("a.held", Level.MUST, Verdict.HELD),
        ("a.gone", Level.MUST, Verdict.UNEXPECTED))]
    assert len(write_baseline(path, outcomes, strict=False)) == 1
    assert len(write_baseline(path, outcomes, strict=True)) == 2
    assert [each.clause for each in read_baseline(path)["mine:f"]] == ["a.must", "a.should"]


def test_a_run_that_was_held_against_it_can_be_taken_into_it(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"

    def outcome(clause: str, verdict: Verdict, change: Change | None = None) -> Outcome:
        return Outcome("mine:f", clause, DType.FLOAT32, Level.MUST, verdict, clause, change=change)

    def changed(clause: str, novelty: Novelty, verdict: Verdict) -> Outcome:
        return outcome(clause, Verdict.UNEXPECTED, Change(novelty, "", verdict))

    write_baseline(path, [outcome(f"a.{name}", Verdict.VIOLATED) for name in ("same", "mended", "other")], strict=False)
    write_baseline(path, [
        outcome("a.same", Verdict.EXPECTED), changed("a.mended", Novelty.MENDED, Verdict.HELD),
        changed("a.other", Novelty.CHANGED, Verdict.ERRORED), outcome("a.new", Verdict.VIOLATED),
        changed("a.manifest", Novelty.CHANGED, Verdict.ERRORED), outcome("a.excused", Verdict.EXPECTED)], strict=False)
    assert [(each.clause, each.verdict) for each in read_entries(path)] == [
        ("a.new", "violated"), ("a.other", "errored"), ("a.same", "violated")]


def test_what_may_be_worse_is_told_before_what_is_mended() -> None:
    digest = Digest()
    digest.add(run_started(planned={"mine:f": 3}, baseline="known.yaml"))
    for novelty in (Novelty.MENDED, Novelty.CHANGED, Novelty.NEW):
        digest.add(ItemFinished(Outcome("mine:f", f"a.{novelty.value}", DType.FLOAT32, Level.MUST, Verdict.UNEXPECTED,
                                        change=Change(novelty, "says", Verdict.VIOLATED))))
    told = [click.unstyle(line).split(":")[0].strip() for line in held_against(digest)]
    assert told[1:4] == ["new", "changed", "mended"]


def test_a_record_can_be_made_a_baseline(here: Path) -> None:
    (here / "theirs.py").write_text(THEIRS.format(shift=1), encoding="utf-8")
    words = ["check", "theirs.py:attend", "--clause", CLAUSE, "--dtype", "float32", "--effort", "quick", "-n", "1"]
    assert main([*words, "--record", "run.jsonl"]) == 1
    assert main(["report", "run.jsonl", "--baseline", "known.yaml"]) == 0
    assert main([*words, "--no-record", "--baseline", "known.yaml"]) == 0


@pytest.mark.nightly
def test_a_quick_gate_heeds_a_baseline_of_all_dtypes(here: Path) -> None:
    (here / "theirs.py").write_text(THEIRS.format(shift=1), encoding="utf-8")
    words = ["check", "theirs.py:attend", "--clause", CLAUSE, "--effort", "quick", "-n", "1", "--no-record"]
    assert main([*words, "--baseline", "known.yaml"]) == 1
    assert {each.dtype for each in read_entries(here / "known.yaml")} == {dtype.value for dtype in DType}
    engine = Engine(Plan(("theirs.py:attend",), clauses=(CLAUSE,), effort=Effort.QUICK, baseline="known.yaml"))
    assert {engine.try_item(item).verdict for item in engine.items()} == {Verdict.EXPECTED}


def test_what_a_manifest_lists_stays_as_it_is_there() -> None:
    own = Deviation("a.must", "violated", "so", "https://example.org/1", "2.0", (DType.FLOAT32,))
    known = [Deviation("a.must", "errored", "so", "", "", (dtype,)) for dtype in (DType.FLOAT32, DType.FLOAT64)]
    assert with_baseline(Declaration(deviations=(own,)), known).deviations == (own, known[1])


RARE = """
import numpy as np
def attend(query, key, value):
    if {when}:
        {deed}
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)
"""
ENTRY = """\
known:
- subject: theirs.py:attend
  clause: attention.shape
  dtype: float32
  verdict: {verdict}
  case: {case}
"""
CASE = "B1,H1,Hkv1,T7,S2,D1,Dv1;mask=none;families=normal;seed=1"


def shape_judged(folder: Path, *more: str, when: str, deed: str, verdict: str, case: str = CASE) -> tuple[int, str]:
    """The exit code and the output of a gate on an attention that does a deed now and then, known to fail so."""
    (folder / "theirs.py").write_text(RARE.format(when=when, deed=deed), encoding="utf-8")
    (folder / "known.yaml").write_text(ENTRY.format(verdict=verdict, case=case), encoding="utf-8")
    return checked("--clause", "attention.shape", "--effort", "glance", *more)


def test_a_known_failure_is_met_on_its_own_case(here: Path) -> None:
    seldom = {"when": "query.shape == (1, 1, 7, 1)", "deed": "raise ValueError('a length of 7')", "verdict": "errored"}
    assert shape_judged(here, **seldom)[0] == 0  # a glance draws one case, and not this one
    code, output = shape_judged(here, **seldom, case=CASE.replace("T7", "T6"))
    assert code == 0
    assert "mended: theirs.py:attend attention.shape (float32) holds now" in output


def test_a_known_failure_is_met_however_slow_the_machine_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seldom = {"when": "query.shape == (1, 1, 7, 1)", "deed": "raise ValueError('a length of 7')", "verdict": "errored"}
    shape_judged(here, **seldom)
    monkeypatch.setattr(Evaluator, "expected_seconds", lambda *_: math.inf)
    engine = Engine(Plan((f"{here}/theirs.py:attend",), clauses=("attention.shape",), dtypes=(DType.FLOAT32,),
                         effort=Effort.GLANCE, baseline=str(here / "known.yaml")))
    (here / "known.yaml").write_text((here / "known.yaml").read_text("utf-8").replace("theirs.py", f"{here}/theirs.py"),
                                     encoding="utf-8")
    [item] = engine.items()
    assert engine.try_item(item).verdict is Verdict.EXPECTED


def test_a_known_failure_may_move_to_another_case(here: Path) -> None:
    moved = {"when": "query.shape[2] != 7", "deed": "raise ValueError(query.shape)", "verdict": "errored"}
    assert shape_judged(here, **moved)[0] == 0


@pytest.mark.nightly
def test_a_known_crash_is_expected(here: Path) -> None:
    deadly = {"when": "query.shape[2] == 7", "deed": "import os; os.abort()"}
    code, output = shape_judged(here, **deadly, verdict="crashed")
    assert (code, "1 known failure as listed, nothing new" in output) == (0, True)
    code, output = shape_judged(here, **deadly, verdict="errored")
    assert code == 1
    assert "changed: theirs.py:attend attention.shape (float32) is crashed now, and is listed as errored" in output


def test_a_case_that_is_none_is_told_with_its_place(here: Path) -> None:
    code, output = shape_judged(here, when="False", deed="pass", verdict="errored",
                                case="T7;mask=none;families=normal;seed=1")
    assert code == 2
    assert "known.yaml:3: 'case': this is no recipe: it should begin with sizes like B2,H2" in output


@pytest.mark.parametrize(("text", "message"), [
    ("known:\n- {subject: m, clause: c, dtype: float23, verdict: violated}",
     "'float23' is not a known dtype. Did you mean 'float32'?"),
    ("known:\n- {subject: m, clause: c, dtype: float32, verdict: held}", "'held' is not a known verdict of a failure."),
    ("conventions:\n- {subject: m, convention: causal_alignmnt, answer: top_left, dtypes: [float32]}",
     "'causal_alignmnt' is not a known convention. Did you mean 'causal_alignment'?"),
    ("conventions:\n- {subject: m, convention: hidden_row.mask, answer: zero, dtypes: [float32]}",
     "'zero' is not a known answer to hidden_row.mask. Did you mean 'zeros'?"),
    ("conventions:\n- {subject: m, convention: hidden_row, answer: zeros}", "a known convention needs 'dtypes'."),
    ("knwon: []", "'knwon' is not a known key of a baseline. Did you mean 'known'?"),
    ("known:\n- {subject: torch/sdpa, clause: scale.explicit, dtype: float32, verdict: violated, "
     "finding: torch/causal_scale_not_postive}",
     "'torch/causal_scale_not_postive' is not a known finding. Did you mean 'torch/causal_scale_not_positive'?"),
    ("known:\n- {subject: torch/sdpa, clause: scale.explicit, dtype: float32, verdict: violated, "
     "finding: torch/hidden_nan_leaks}",
     "torch/hidden_nan_leaks does not speak of torch/sdpa scale.explicit float32: see implementations/torch/findings."),
])
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as told:
        read_baseline(path), read_conventions(path)
    assert message in str(told.value)
    assert "known.yaml:" in str(told.value)


def test_a_clause_that_is_gone_from_the_law_is_told(here: Path) -> None:
    (here / "known.yaml").write_text(
        "known:\n- {subject: 'theirs.py:attend', clause: causal.no_lookahed, dtype: float32, verdict: violated}",
        encoding="utf-8")
    (here / "theirs.py").write_text(THEIRS.format(shift=0), encoding="utf-8")
    done = CliRunner().invoke(check, ["theirs.py:attend", "--baseline", "known.yaml", "--no-record"],
                              standalone_mode=False)
    assert "'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_lookahead'?" in str(done.exception)


def test_an_update_of_nothing_is_told() -> None:
    done = CliRunner().invoke(check, ["numpy/attention", "--update-baseline"], standalone_mode=False)
    assert str(done.exception) == "--update-baseline needs to know which: --baseline PATH."


def test_a_baseline_whose_path_was_forgotten_is_told_at_once() -> None:
    done = CliRunner().invoke(check, ["numpy/attention", "--baseline", "--no-record"], standalone_mode=False)
    assert str(done.exception) == "--baseline needs a path; --no-record is the next option."


STRANGE = """\
known:
- {subject: numpy/attention, clause: causal.no_lookahed, dtype: float32, verdict: violated}
- {subject: numpy/atention, clause: causal.no_lookahead, dtype: float32, verdict: violated}
- {subject: jax/dot_product_attention, clause: causal.no_lookahead, dtype: bfloat16, verdict: violated}
- {subject: mine:attend, clause: causal.no_lookahead, dtype: float32, verdict: violated, case: T7}
- {subject: mine:attend, clause: causal.no_lookahead, dtype: float32, verdict: errored}
"""


@pytest.mark.nightly
def test_lint_tells_what_no_run_can_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "strange.yaml").write_text(STRANGE, encoding="utf-8")
    assert main(["lint", "--baseline", str(tmp_path)]) == 2
    told = capsys.readouterr().out
    for line, text in ((2, "'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_lookahead'?"),
                       (3, "'numpy/atention' is not a known subject. Did you mean 'numpy/attention'?"),
                       (4, "jax/dot_product_attention does not take bfloat16, so it cannot fail there."),
                       (5, "'case': this is no recipe"),
                       (6, "mine:attend causal.no_lookahead float32 is listed twice.")):
        assert f"strange.yaml:{line}: {text}" in told


@pytest.mark.nightly
def test_lint_reads_a_baseline_as_a_run_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "known.yaml"
    path.write_text("knwon: []", encoding="utf-8")
    assert main(["lint", "--baseline", str(path)]) == 2
    assert "known.yaml:1: 'knwon' is not a known key of a baseline." in capsys.readouterr().out


ALIGNED = """
import numpy as np
def attend(query, key, value, *, causal=False):
    logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if causal:
        rows, columns = logits.shape[-2:]
        logits = np.where(np.tri(rows, columns, {shift}), logits, np.float32(-30000))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ value).astype(query.dtype)
"""
TOP_LEFT, BOTTOM_RIGHT = "0", "columns - rows"


def aligned(folder: Path, shift: str, *more: str, clause: str = "causal.alignment*") -> tuple[int, str]:
    """The exit code and the output of a gate on an attention whose causal mask has this diagonal."""
    (folder / "theirs.py").write_text(ALIGNED.format(shift=shift), encoding="utf-8")
    return checked("--clause", clause, "--effort", "quick", *more)


def test_a_convention_that_changes_stops_a_gate(here: Path) -> None:
    assert aligned(here, TOP_LEFT)[0] == 0
    [known] = read_conventions(here / "known.yaml")
    assert (known.name, known.answer, known.dtypes) == ("causal_alignment", "top_left", (DType.FLOAT32,))
    assert aligned(here, TOP_LEFT)[0] == 0

    code, output = aligned(here, BOTTOM_RIGHT)
    assert code == 1
    assert "Not as listed: 1 convention (causal_alignment). (exit code 1)" in output
    assert ("changed: theirs.py:attend causal.alignment_is_top_left (float32) convention causal_alignment was "
            "top_left, is bottom_right") in output

    assert aligned(here, BOTTOM_RIGHT, "--update-baseline")[0] == 1  # told once more, and taken into the list
    assert read_conventions(here / "known.yaml")[0].answer == "bottom_right"
    assert aligned(here, BOTTOM_RIGHT)[0] == 0


@pytest.mark.nightly
def test_a_strict_gate_tells_a_changed_convention_and_learns_it(here: Path) -> None:
    assert aligned(here, TOP_LEFT, "--strict")[0] == 0
    assert aligned(here, BOTTOM_RIGHT, "--strict", "--update-baseline")[0] == 1
    assert aligned(here, BOTTOM_RIGHT, "--strict")[0] == 0


def test_a_baseline_of_before_knows_no_conventions(here: Path) -> None:
    (here / "known.yaml").write_text("known: []\n", encoding="utf-8")
    assert aligned(here, BOTTOM_RIGHT)[0] == 0
    assert aligned(here, BOTTOM_RIGHT, "--update-baseline")[0] == 0
    assert [each.answer for each in read_conventions(here / "known.yaml")] == ["bottom_right"]


def test_a_declared_convention_is_not_listed(here: Path) -> None:
    text = ALIGNED.format(shift=TOP_LEFT) + 'attend.conventions = {"causal_alignment": "top_left"}'
    (here / "theirs.py").write_text(text, encoding="utf-8")
    assert checked("--clause", "causal.alignment*", "--effort", "quick")[0] == 0
    assert read_conventions(here / "known.yaml") == ()


def probed(dtype: DType, **found: str) -> Outcome:
    """What is found of hidden rows at a dtype."""
    conventions = tuple(ProbedConvention(name.replace("__", "."), answer) for name, answer in found.items())
    return Outcome("mine:f", "masking.hidden_row_is_zeros", dtype, Level.SHOULD, Verdict.HELD, probed=conventions)


def test_conventions_are_kept_by_dtype_and_by_form(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    write_baseline(path, [probed(DType.FLOAT64, hidden_row="zeros"), probed(DType.FLOAT32, hidden_row="zeros"),
                          probed(DType.FLOAT16, hidden_row="uniform", hidden_row__bias="nan")], strict=False)
    assert [(each.name, each.answer, [dtype.value for dtype in each.dtypes]) for each in read_conventions(path)] == [
        ("hidden_row", "uniform", ["float16"]), ("hidden_row", "zeros", ["float64", "float32"]),
        ("hidden_row.bias", "nan", ["float16"])]
    known = index_conventions(read_conventions(path))
    same = probed(DType.FLOAT16, hidden_row="uniform", hidden_row__bias="nan")
    assert changed_convention(same, known) == ("", "")
    assert changed_convention(probed(DType.FLOAT16, hidden_row="uniform"), known)[1] == (
        "convention hidden_row.bias was nan, is uniform")
    assert changed_convention(probed(DType.FLOAT32, hidden_row="zeros", hidden_row__bias="nan"), known)[1] == (
        "convention hidden_row.bias was zeros, is nan")
    write_baseline(path, [probed(DType.FLOAT16, hidden_row="zeros")], strict=False)
    assert [each.name for each in read_conventions(path)] == ["hidden_row"]  # and the other dtypes stay


def test_what_was_not_judged_makes_no_baseline(here: Path) -> None:
    (here / "theirs.py").write_text("import numpyy\n\ndef attend(query, key, value): ...\n", encoding="utf-8")
    code, output = checked("--clause", "attention.shape")
    assert code == 2
    assert "baseline: known.yaml was not written, since nothing was judged" in output
    assert not (here / "known.yaml").exists()

    (here / "fine.py").write_text(THEIRS.format(shift=0), encoding="utf-8")
    code, output = checked("fine.py:attend", "--clause", "attention.shape", "--effort", "glance")
    assert code == 2
    assert ("known.yaml was not written, since 1 item of theirs.py:attend could not be judged: fix that, and run it "
            "again") in output

    (here / "known.yaml").write_text("known: []\n", encoding="utf-8")
    output = checked("fine.py:attend", "--clause", "attention.shape", "--effort", "glance", "--update-baseline")[1]
    assert ("wrote known.yaml with 0 known failures. Not judged, so left as before: 1 item of theirs.py:attend. "
            "Commit it") in output


def test_a_record_of_half_a_run_makes_no_baseline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "theirs.py").write_text("import numpyy\n\ndef attend(query, key, value): ...\n", encoding="utf-8")
    assert main(["check", "theirs.py:attend", "--clause", "attention.shape", "--record", "run.jsonl"]) == 2
    assert main(["report", "run.jsonl", "--baseline", "known.yaml"]) == 2
    assert "known.yaml: the baseline was not written, since nothing was judged." in capsys.readouterr().err


LISTED = "- {{subject: '{}', clause: causal.no_lookahead, dtype: float32, verdict: violated}}\n"


@pytest.mark.parametrize(("subject", "near"), [
    ("theirs.py:atend", "theirs.py:attend"), ("their.py:attend", "theirs.py:attend")])
def test_a_misspelt_subject_is_told_by_check_and_by_lint(
    subject: str, near: str, here: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "theirs.py").write_text(THEIRS.format(shift=0), encoding="utf-8")
    (here / "known.yaml").write_text(f"known:\n{LISTED.format(near)}{LISTED.format(subject)}", encoding="utf-8")
    assert main(["check", "theirs.py:attend", "--baseline", "known.yaml", "--no-record"]) == 2
    assert f"known.yaml:3: '{subject}' is not a known subject. Did you mean '{near}'?" in capsys.readouterr().err
    [told] = check_baselines([Path("known.yaml")], load_spec(), ())
    assert "known.yaml:3: " in str(told)
    assert "Did you mean 'attend'?" in str(told) or f"Did you mean '{near}'?" in str(told)


@pytest.mark.parametrize("subject", ["theirs.py:other", "numpy/msa", "elsewhere.far:thing"])
def test_a_subject_that_this_run_does_not_judge_may_be_listed(subject: str, here: Path) -> None:
    (here / "theirs.py").write_text(f"{THEIRS.format(shift=0)}other = attend\n", encoding="utf-8")
    (here / "known.yaml").write_text(f"known:\n{LISTED.format(subject)}", encoding="utf-8")
    plan = Plan(("theirs.py:attend", "numpy/attention"), baseline=str(here / "known.yaml"))
    assert Engine(plan).items()


def test_a_misspelt_id_is_told_with_the_nearest(here: Path) -> None:
    (here / "known.yaml").write_text(f"known:\n{LISTED.format('numpy/atention')}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"'numpy/atention' is not a known subject\. Did you mean 'numpy/attention'\?"):
        Engine(Plan(("numpy/attention",), baseline=str(here / "known.yaml"))).items()


MADE = """\
known: []
made:
- attnspec: 0.1.0
  spec: {spec}
  effort: {effort}
  seed: 0
  tried:
  - subjects: [mine:f]
    dtypes: [{dtype}]
    clauses: causal.alignment causal.no_lookahead
"""


@pytest.mark.parametrize(("clause", "made", "novelty", "why"), [
    ("causal.no_lookahead", {}, Novelty.REGRESSION, "it did not fail when the list was made"),
    ("causal.no_lookahead", {"spec": "another"}, Novelty.REGRESSION,
     "it did not fail when the list was made (the clauses have changed since)"),
    ("causal.no_lookahead", {"effort": "glance"}, Novelty.DEEPER, "the list was made at effort glance"),
    ("causal.no_lookahead", {"effort": "thorough"}, Novelty.REGRESSION, "it did not fail when the list was made"),
    ("causal.no_lookahead", {"dtype": "float16"}, Novelty.UNTRIED, "it was not tried when the list was made"),
    ("attention.shape", {}, Novelty.UNTRIED, "it was not tried when the list was made"),
    ("attention.shape", {"spec": "another"}, Novelty.UNTRIED, "the clause is newer than the list"),
])
def test_a_regression_is_told_from_what_the_list_could_not_know(
    tmp_path: Path, clause: str, made: dict[str, str], novelty: Novelty, why: str,
) -> None:
    path = tmp_path / "known.yaml"
    engine = Engine(Plan(("mine:f",), effort=Effort.QUICK, baseline=str(path)))
    path.write_text(MADE.format(**{"spec": engine.conditions.spec, "effort": "quick", "dtype": "float32", **made}),
                    encoding="utf-8")
    failed = Outcome("mine:f", clause, DType.FLOAT32, Level.MUST, Verdict.VIOLATED, "differs")
    told = engine.compare_with_known(failed)
    assert told.change == Change(novelty, f"is violated (differs); {why}", Verdict.VIOLATED)
    assert told.does_gate(strict=False) is (novelty is Novelty.REGRESSION)
    # the list knows nothing of it
    assert engine.compare_with_known(replace(failed, subject="mine:g")).does_gate(strict=False)
    # this run asks for it
    assert engine.compare_with_known(replace(failed, clause="contract.causal")).does_gate(strict=False)


def test_a_list_keeps_what_it_was_made_under(tmp_path: Path) -> None:
    path, now = tmp_path / "known.yaml", Conditions("0.1.0", "abc", Effort.QUICK, 7)
    lacking, spared = "mine:f takes no window", PUT_ONCE.format("float32")
    outcomes = [Outcome("mine:f", clause, dtype, Level.MUST, verdict, reason) for clause, dtype, verdict, reason in (
        ("a.held", DType.FLOAT32, Verdict.HELD, ""), ("a.lacks", DType.FLOAT32, Verdict.INAPPLICABLE, lacking),
        ("a.held", DType.FLOAT16, Verdict.INAPPLICABLE, spared), ("a.lost", DType.FLOAT32, Verdict.NOT_RUN, ""))]
    write_baseline(path, outcomes, strict=False, conditions=now)
    assert read_tried(path) == {("mine:f", clause, "float32"): now for clause in ("a.held", "a.lacks")}
    later = replace(now, effort=Effort.GLANCE)
    write_baseline(path, outcomes[:1], strict=False, conditions=later)  # and of what it does not put keeps the rest
    assert read_tried(path) == {("mine:f", "a.held", "float32"): later, ("mine:f", "a.lacks", "float32"): now}


def test_what_the_list_could_not_know_is_told_and_stops_nobody() -> None:
    outcomes = [
        Outcome("mine:f", "a.known", DType.FLOAT32, Level.MUST, Verdict.EXPECTED),
        Outcome("mine:f", "a.newer", DType.FLOAT32, Level.MUST, Verdict.VIOLATED,
                change=Change(Novelty.UNTRIED, "is violated", Verdict.VIOLATED)),
        Outcome("mine:f", "a.mended", DType.FLOAT32, Level.MUST, Verdict.HELD,
                change=Change(Novelty.MENDED, "holds now", Verdict.HELD))]
    assert describe_exceptions(outcomes) == (", but for 1 known failure and 1 failure that the list could not know; "
                                             "1 listed failure is mended: renew the list (--update-baseline)")
    assert describe_exceptions(outcomes[2:]
                               * 3) == "; all 3 listed failures are mended: renew the list (--update-baseline)"
    assert exit_code(outcomes, strict=True, interrupted=False) == 0
    record = RunRecord(run_started(planned={"mine:f": 3}, baseline="known.yaml"), (), tuple(outcomes),
                       RunFinished("", 0.0, {}, 0))
    assert make_badge([record])["color"] == "yellow"
    assert make_badge([replace(record, outcomes=tuple(outcomes[2:]))])["color"] == "brightgreen"


def test_an_update_says_which_conventions_it_did_not_probe(here: Path) -> None:
    known = "- {{subject: 'theirs.py:attend', convention: causal_alignment, answer: {}, dtypes: [{}]}}\n"
    (here / "known.yaml").write_text(f"conventions:\n{known.format('top_left', 'float16')}", encoding="utf-8")
    output = aligned(here, TOP_LEFT, "--update-baseline")[1]
    assert "Conventions at float16 were not probed in this run, so left as before" in output
    assert [each.dtypes for each in read_conventions(here / "known.yaml")] == [(DType.FLOAT32, DType.FLOAT16)]
