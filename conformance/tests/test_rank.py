"""A ranking judges each of many kernels as a whole, tells it in a line, goes on where it was, and compares them."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from attnspec.cli import main
from attnspec.cli.rank import KernelsAlone, line_of
from attnspec.core.errors import TargetError, UsageError
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.plan import Item, JobFailure, Plan, Shard
from attnspec.numerics.expectation import Expectation, expect
from attnspec.numerics.precision import Precision
from attnspec.problems.choices import Menu
from attnspec.problems.problem import Problem
from attnspec.ranking.jobs import (
    GRADE_QUANTITY,
    KernelJob,
    KernelScore,
    KernelWorker,
    RankJobs,
    as_ranking,
    clearest_first,
    find_kernels,
    ranking_exit_code,
    resume_ranking,
)
from attnspec.record.codec import record_schema
from attnspec.record.events import Event, FirstFailure, ItemFinished, ItemStarted, KernelRanked, KernelStanding
from attnspec.record.outcome import Reading
from attnspec.record.read import read_record
from attnspec.record.write import combine_records, reopen_record
from attnspec.report.page import render_page
from attnspec.report.sections import make_ranking
from attnspec.runner.jobs import Sharing
from attnspec.runner.session import INTERRUPTED, UNREACHED
from attnspec.subjects.watching import MOST_HANGS
from attnspec.trials.covering_cases import Choices
from attnspec.trials.judging import Tally
from attnspec.trials.trial import Trial
from helpers.commands import Cli
from helpers.outcomes import evidence, outcome, run
from helpers.pages import section, spaced_words
from helpers.records import run_started, write_record
from jsonschema import Draft202012Validator

SOUND = '''"""Attention, line by line."""
import numpy as np


def attend(query, key, value, *, mask=None, causal=False):
    wide = np.promote_types(np.float32, query.dtype) if query.dtype.kind == "f" else np.dtype(np.float32)
    logits = query.astype(wide) @ key.astype(wide).swapaxes(-1, -2) / wide.type(query.shape[-1]) ** 0.5
    seen = np.tri(*logits.shape[-2:], dtype=bool) if causal else np.ones(logits.shape[-2:], bool)
    seen = np.broadcast_to(seen if mask is None else seen & mask, logits.shape)
    logits = np.where(seen, logits, -np.inf)
    top = logits.max(axis=-1, keepdims=True)
    grown = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = grown.sum(axis=-1, keepdims=True)
    kept = np.where(seen.any(axis=-2)[..., None], value.astype(wide), 0)
    return (grown / np.where(total == 0, 1, total) @ kept).astype(query.dtype)
'''
STRICT = SOUND.replace("np.tri(*logits.shape[-2:], dtype=bool)", "np.tri(*logits.shape[-2:], -1, dtype=bool)")
DIES = SOUND.replace("    wide =", "    import os\n    os._exit(3)\n    wide =")
HANGS_ = SOUND.replace("    wide =", "    import time\n    time.sleep(60)\n    wide =")
BROKEN = "import there_is_no_such_module\n\n\ndef attend(query, key, value):\n    return value\n"
ENDS = "import os\nos._exit(3)\n\n\ndef attend(query, key, value):\n    return value\n"
FILES = {"sound": SOUND, "strict": STRICT, "broken": BROKEN, "dies": DIES}
FEW = ("--clause", "causal.*", "--clause", "attention.definition", "--dtype", "float32")
COMMAND = ("rank", "kernels", *FEW, "-n", "1", "--record", "kept.jsonl")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def ranked_by(folder: Path, text: str, stop_after: int = 0, **changes: object) -> KernelRanked:
    """The line of one kernel, judged by a worker in this process under a few clauses."""
    target = f"{write(folder, kernel=text) / 'kernel.py'}:attend"
    plan = replace(Plan((target,), clauses=("causal.*", "attention.definition"), dtypes=(DType.FLOAT32,),
                        effort=Effort.GLANCE), **changes)  # type: ignore[arg-type]  # fields by name
    return KernelWorker(as_ranking(plan, stop_after), stop_after, lambda _: None).rank(target)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A ranking of four kernels in one go: its folder, and what the command printed."""
    folder, said = tmp_path_factory.mktemp("whole"), io.StringIO()
    write(folder / "kernels", **FILES)
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        assert main([*COMMAND, "--html", "page.html"]) == 1
    return folder, said.getvalue()


@pytest.fixture
def again(whole: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of that folder, which is where the command `cli` runs."""
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def by_name(path: Path) -> dict[str, KernelRanked]:
    return {Path(rank.subject.partition(":")[0]).stem: rank for rank in read_record(path).ranks}


def test_each_kernel_has_a_line_with_its_verdict(whole: tuple[Path, str]) -> None:
    found = by_name(whole[0] / "kept.jsonl")
    assert {name: rank.verdict for name, rank in found.items()} == {
        "broken": KernelStanding.NOT_JUDGED, "dies": KernelStanding.VIOLATED, "sound": KernelStanding.CONFORMS,
        "strict": KernelStanding.VIOLATED}
    assert (found["sound"].score, found["sound"].failed, found["sound"].first) == (1.0, 0, None)
    assert 0 < found["sound"].margin <= 1


def test_a_line_names_the_first_failure_and_its_likely_cause(whole: tuple[Path, str]) -> None:
    first = by_name(whole[0] / "kept.jsonl")["strict"].first
    assert first is not None
    assert (first.clause.partition(".")[0], first.fault) == ("causal", "causal_strict")
    assert first.cause == "the diagonal is masked as well, so that a query does not see itself"
    assert first.repeat.startswith("attnspec replay 'kernels/strict.py:attend causal.")


def test_the_death_of_a_kernel_costs_only_itself(whole: tuple[Path, str]) -> None:
    found = by_name(whole[0] / "kept.jsonl")
    assert found["dies"].score == 0
    assert "exit code 3" in found["dies"].death
    assert not any(found[name].death for name in ("sound", "strict", "broken"))
    assert "there_is_no_such_module" in found["broken"].reason


def test_a_record_has_one_line_for_each_kernel(whole: tuple[Path, str]) -> None:
    events = [line["event"] for line in lines(whole[0] / "kept.jsonl")]
    assert events == ["run_started", *["kernel_ranked"] * 4, "run_finished"]


def test_every_line_is_as_the_published_schema_says(whole: tuple[Path, str]) -> None:
    validator = Draft202012Validator(record_schema())
    assert [error.message for line in lines(whole[0] / "kept.jsonl") for error in validator.iter_errors(line)] == []


def test_the_console_tells_each_kernel_and_ends_with_the_counts(whole: tuple[Path, str]) -> None:
    told = whole[1].splitlines()
    strict = r"4/4  0\.\d\d  does not conform  kernels/strict\.py:attend  [\d.]+ s  causal\.\w+: the diagonal is masked"
    assert re.match(strict, told[3])
    assert told[-1] == "4 kernels: 1 conforms, 2 do not conform, 1 not judged. (exit code 1)"
    assert told[-3:-1] == ["page: page.html", "record: kept.jsonl"]


def test_the_page_compares_the_kernels_the_best_first(whole: tuple[Path, str]) -> None:
    page = (whole[0] / "page.html").read_text(encoding="utf-8")
    told = spaced_words(section(page, "ranking"))
    bare, best_first = told.replace(" ", ""), ("sound", "strict", "dies", "broken")
    places = [bare.index(f"kernels/{name}.py:attend") for name in best_first]
    assert places == sorted(places)
    assert "1 of 4 kernels conforms" in spaced_words(page)
    assert "the diagonal is masked as well" in told


def test_what_is_in_the_record_is_not_judged_again(again: Path, cli: Cli) -> None:
    before = (again / "kept.jsonl").read_bytes()
    code, said, _ = cli(*COMMAND)
    assert (code, said.splitlines()[-1]) == (1, "4 kernels: 1 conforms, 2 do not conform, 1 not judged. (exit code 1)")
    assert (again / "kept.jsonl").read_bytes() == before


@pytest.mark.nightly
def test_a_killed_run_goes_on_where_it_was(again: Path, cli: Cli) -> None:
    path = again / "kept.jsonl"
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(kept[:3]) + kept[3][:40], encoding="utf-8")  # killed while it wrote the third kernel
    _, said, _ = cli(*COMMAND)
    assert "2 of 4 kernels stand in kept.jsonl already." in said
    now = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert now[:3] == kept[:3]
    assert sorted(by_name(path)) == sorted(FILES)


def test_a_kernel_whose_file_has_changed_is_judged_anew(again: Path, cli: Cli) -> None:
    (again / "kernels" / "strict.py").write_text(SOUND, encoding="utf-8")
    before = by_name(again / "kept.jsonl")
    cli(*COMMAND)
    now = by_name(again / "kept.jsonl")
    assert now["strict"].verdict is KernelStanding.CONFORMS
    assert all(now[name] == before[name] for name in ("sound", "broken", "dies"))


def test_another_plan_is_refused(again: Path, cli: Cli) -> None:
    before = (again / "kept.jsonl").read_bytes()
    code, _, said = cli(*COMMAND, "--seed", "1")
    assert code == 2
    assert "effort, seed, clauses, dtypes, contract, shard, spec or attnspec differ. Name another file" in said
    assert (again / "kept.jsonl").read_bytes() == before


def test_the_record_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "check.jsonl"
    done = run(outcome(Verdict.HELD))
    write_record(path, done.header, ItemFinished(done.outcomes[0]))
    with pytest.raises(UsageError, match="the record of another kind of run, so a ranking cannot go on in it"):
        resume_ranking(path, as_ranking(Plan(("a.py:f",))))


def test_more_kernels_can_be_added_to_a_record(tmp_path: Path) -> None:
    path, plan = tmp_path / "kept.jsonl", as_ranking(Plan(("a.py:f",)))
    write_record(path, RankJobs(plan).header(run_started()))
    assert resume_ranking(path, as_ranking(Plan(("a.py:f", "b.py:f")))) is not None


def test_a_seed_is_drawn_told_recorded_and_kept(here: Path, cli: Cli) -> None:
    write(here / "kernels", broken=BROKEN)
    _, said, _ = cli(*COMMAND, "--seed", "random")
    seed = read_record(here / "kept.jsonl").header.seed
    assert said.startswith(f"seed: {seed} (drawn; --seed {seed} draws the same cases)\n")
    _, said, _ = cli(*COMMAND, "--seed", "random")
    assert said.startswith(f"seed: {seed} (from the record; ")


def test_json_has_a_line_a_kernel_on_standard_output(here: Path, cli: Cli) -> None:
    write(here / "kernels", broken=BROKEN)
    code, said, told = cli(*COMMAND, "--json")
    assert [json.loads(line)["event"] for line in said.splitlines()] == [
        "run_started", "kernel_ranked", "run_finished"]
    assert code == 2
    assert told.rstrip().endswith("1 kernel: 1 not judged. (exit code 2)")


@pytest.mark.nightly
def test_a_kernel_is_dropped_after_so_many_failing_clauses(tmp_path: Path) -> None:
    found, all_of_it = (ranked_by(tmp_path / str(stop), STRICT, stop) for stop in (1, 0))
    assert (found.failed, found.stopped, all_of_it.stopped) == (1, "dropped after 1 failing clause", "")
    assert found.untried > 0
    assert found.score < all_of_it.score  # what was not put did not hold
    assert found.held + found.failed + found.untried >= all_of_it.held + all_of_it.failed


@pytest.mark.nightly
def test_clauses_that_do_not_apply_are_not_counted_as_dropped(tmp_path: Path) -> None:
    found = ranked_by(tmp_path, STRICT, 1, clauses=("causal.*", "window.*", "rotary.*"))
    assert found.untried < 10


@pytest.mark.nightly
def test_a_kernel_that_hangs_is_dropped(tmp_path: Path) -> None:
    found = ranked_by(tmp_path, HANGS_, deadline=0.4)
    assert found.stopped == f"dropped after {MOST_HANGS} calls that did not return"
    assert "had not returned after 0.4 s" in found.death


def test_a_refusal_against_the_contract_counts_in_the_score(tmp_path: Path) -> None:
    free, bound = ranked_by(tmp_path / "a", SOUND), ranked_by(tmp_path / "b", SOUND, must_take="causal softcap")
    assert (free.score, free.verdict) == (1.0, KernelStanding.CONFORMS)
    assert (bound.verdict, bound.failing[0]) == (KernelStanding.VIOLATED, "contract.softcap")
    assert bound.held > free.held  # that it takes the causal flag counts, too
    assert bound.score < 1


def test_an_import_that_ends_the_process_is_a_death(tmp_path: Path) -> None:
    found = ranked_by(tmp_path, ENDS)
    assert (found.verdict, found.death) == (KernelStanding.NOT_JUDGED, found.reason)
    assert "ends the process (exit code 3)" in found.death


def test_kernels_of_one_class_share_what_the_definition_says(tmp_path: Path) -> None:
    write(tmp_path, one=SOUND, two=SOUND, wrong=STRICT)
    targets = tuple(f"{tmp_path / name}.py:attend" for name in ("one", "two", "wrong"))
    plan = as_ranking(Plan(targets, clauses=("attention.definition",), dtypes=(DType.FLOAT32,), effort=Effort.GLANCE))
    worker, worked = KernelWorker(plan, 0, lambda _: None), list[int]()
    counts = list[int]()

    def counting(problem: Problem, precision: Precision, **more: Any) -> Expectation:  # noqa: ANN401  (as it takes)
        worked.append(1)
        return expect(problem, precision, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnspec.trials.evaluator.expect", counting)
        for target in targets[:2]:
            worker.rank(target)
            counts.append(len(worked))
    assert counts[0] > 0
    assert counts[1] == counts[0]


def test_the_first_failing_case_alone_is_made_small(tmp_path: Path) -> None:
    shrink, shrunk = Trial._shrink, list[str]()

    def counting(trial: Trial, menu: Menu, choices: Choices, tally: Tally) -> None:
        shrunk.append(trial.check.clause.id)
        shrink(trial, menu, choices, tally)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "_shrink", counting)
        found = ranked_by(tmp_path, STRICT)
    assert len(found.failing) > 1
    assert found.first is not None
    assert shrunk == [found.first.clause]


def test_the_first_failure_is_one_at_float32_that_says_the_most() -> None:
    items = [Item("k", clause, dtype) for dtype in ("float64", "float32")
             for clause in ("attention.shape", "numerics.typical_error", "causal.definition")]
    assert [(item.dtype, item.clause) for item in clearest_first(items)][:4] == [
        ("float32", "attention.shape"), ("float32", "causal.definition"), ("float32", "numerics.typical_error"),
        ("float64", "attention.shape")]


def scored(*outcomes: object) -> KernelRanked:
    score = KernelScore()
    score.outcomes += outcomes  # type: ignore[arg-type]
    return score.conclude_kernel("k.py:attend", strict=False)


def test_the_score_is_the_share_of_must_clauses_that_hold_everywhere() -> None:
    held, bad = Verdict.HELD, Verdict.VIOLATED
    found = scored(outcome(held, "a.x"), outcome(held, "b.x"), outcome(bad, "b.x", dtype=DType.FLOAT16),
                   outcome(Verdict.INAPPLICABLE, "c.x"), outcome(Verdict.NO_CLAIM, "d.x"),
                   outcome(bad, "e.x", level=Level.SHOULD), outcome(held, "f.x"))
    assert (found.score, found.held, found.failed, found.failing) == (2 / 3, 2, 1, ("b.x",))


def test_a_recommendation_costs_nothing_unless_the_run_is_strict() -> None:
    score = KernelScore([outcome(Verdict.HELD, "a.x"), outcome(Verdict.VIOLATED, "e.x", level=Level.SHOULD)])
    assert score.conclude_kernel("k", strict=False).verdict is KernelStanding.CONFORMS
    strict = score.conclude_kernel("k", strict=True)
    assert (strict.verdict, strict.first.clause if strict.first else "") == (KernelStanding.VIOLATED, "e.x")


def test_the_margin_is_the_worst_of_all_must_clauses() -> None:
    far, near = evidence(7.0).measured, evidence(0.5).measured
    found = scored(replace(outcome(Verdict.HELD, "a.x"), worst=near),
                   replace(outcome(Verdict.VIOLATED, "b.x"), worst=far),
                   replace(outcome(Verdict.VIOLATED, "c.x", level=Level.SHOULD), worst=evidence(math.inf).measured))
    assert (found.margin, found.closest) == (7.0, "b.x float32")


def test_a_margin_that_is_no_number_is_infinite() -> None:
    found = scored(replace(outcome(Verdict.VIOLATED, "b.x"), worst=evidence(math.nan).measured))
    assert found.margin == math.inf


def test_a_line_tells_the_grade_at_each_dtype() -> None:
    graded = replace(outcome(Verdict.HELD, dtype=DType.FLOAT16), readings=(Reading(GRADE_QUANTITY, "G1", 0.0, ""),))
    assert scored(graded).grade == {"float16": "G1"}


def test_a_kernel_to_which_nothing_applies_is_not_judged() -> None:
    found = scored(replace(outcome(Verdict.INAPPLICABLE), reason="it takes no mask"))
    assert (found.verdict, found.reason) == (KernelStanding.NOT_JUDGED, "it takes no mask")


def of(*standings: KernelStanding) -> list[KernelRanked]:
    return [KernelRanked(f"k{number}", standing) for number, standing in enumerate(standings)]


@pytest.mark.parametrize(("standings", "code"), [
    ([KernelStanding.CONFORMS], 0), ([KernelStanding.CONFORMS, KernelStanding.VIOLATED], 1),
    ([KernelStanding.CONFORMS, KernelStanding.NOT_JUDGED], 2),
    ([KernelStanding.VIOLATED, KernelStanding.NOT_JUDGED], 1), ([], 2)])
def test_the_exit_code_follows_from_the_verdicts(standings: Sequence[KernelStanding], code: int) -> None:
    assert ranking_exit_code(of(*standings)) == code
    assert ranking_exit_code(of(*standings), interrupted=True) == 2


def test_a_kernel_that_attnspec_itself_lost_is_judged_again(tmp_path: Path) -> None:
    plan = as_ranking(Plan(("a.py:f",)))
    jobs = RankJobs(plan)
    lost = jobs.record_loss(KernelJob("a.py:f"), JobFailure("a worker died"))
    assert (lost.verdict, lost.lost) == (KernelStanding.NOT_JUDGED, "a worker died")
    path = write_record(tmp_path / "kept.jsonl", jobs.header(run_started()), lost)
    assert reopen_record(path).ranks == ()


def test_an_interrupted_run_says_nothing_of_kernels_it_did_not_reach() -> None:
    told = list[Event]()
    handler = KernelsAlone(Mock(handle=told.append))
    for lost in (INTERRUPTED, UNREACHED, "", "a worker died"):
        handler.handle(KernelRanked("k.py:f", KernelStanding.NOT_JUDGED, lost=lost))
    handler.handle(ItemStarted("k.py:f", "rank", ""))
    assert [event.lost for event in told if isinstance(event, KernelRanked)] == ["", "a worker died"]
    assert len(told) == 2


def test_targets_are_files_folders_patterns_and_lists(here: Path) -> None:
    write(here / "k" / "deep", c=SOUND)
    write(here / "k", a=SOUND, b=SOUND.replace("attend", "mine"), _helper="")
    (here / "list.txt").write_text("# mine\nk/a.py\n\ntorch/sdpa\n", encoding="utf-8")
    assert list(find_kernels(["k"])) == ["k/a.py:attend", "k/b.py:mine", "k/deep/c.py:attend"]
    assert list(find_kernels(["k/*.py:run"])) == ["k/_helper.py:run", "k/a.py:run", "k/b.py:run"]
    assert list(find_kernels(["list.txt", "mine:attend"])) == ["k/a.py:attend", "torch/sdpa", "mine:attend"]
    assert list(find_kernels(["k/b.py"], function="other")) == ["k/b.py:other"]


@pytest.mark.parametrize(("named", "told"), [
    ("empty", "'empty' names no kernel: there is no Python file"), ("no*.py", "'no\\*.py' names no kernel"),
    ("none.txt", "the targets in none.txt cannot be read: No such file"),
    ("none.py", "none.py: there is no such file")])
def test_targets_that_name_no_kernel_are_refused(here: Path, named: str, told: str) -> None:
    (here / "empty").mkdir()
    with pytest.raises(TargetError, match=told):
        list(find_kernels([named]))


def test_shards_share_out_the_kernels_and_are_joined_again(tmp_path: Path) -> None:
    whole = Plan(tuple(f"{name}.py:f" for name in "abcde"))
    parts = [as_ranking(whole, sharing=Sharing(Shard(index, 2))) for index in (1, 2)]
    assert sorted(target for part in parts for target in part.targets) == sorted(whole.targets)
    paths = [write_record(tmp_path / f"{number}.jsonl", RankJobs(part).header(run_started()),
                          *(KernelRanked(target, KernelStanding.CONFORMS) for target in part.targets))
             for number, part in enumerate(parts)]
    combine_records(paths, tmp_path / "all.jsonl")
    with pytest.raises(Exception, match="of which 2/2 is missing"):
        combine_records(paths[:1], tmp_path / "some.jsonl")


def test_a_page_counts_a_kernel_of_two_records_once() -> None:
    first = FirstFailure("causal.definition", "float32", "wrong", cause="each query sees one later key",
                         boundary="Fails where S ≥ 2.")
    kernel = KernelRanked("k.py:f", KernelStanding.VIOLATED, 0.5, 1, 1, 0, ("causal.definition",), first, seconds=2.0)
    record = replace(run(), header=run_started(items=1), ranks=(kernel, replace(kernel, subject="l.py:f")))
    view = make_ranking([record, record])
    assert view is not None
    assert [(row.place, row.kernel.subject) for row in view.rows] == [(1, "k.py:f"), (1, "l.py:f")]
    assert view.causes[0].kernels == ("k.py:f", "l.py:f")
    assert "Fails where S ≥ 2." in spaced_words(section(render_page([record]), "ranking"))


def test_the_line_of_a_dropped_kernel_says_so() -> None:
    kernel = KernelRanked("k.py:f", KernelStanding.VIOLATED, 0.25, stopped="dropped after 1 failing clause",
                          seconds=1.04, first=FirstFailure("causal.definition", "float32", "1 of 4 entries differ"))
    assert line_of(kernel).endswith(
        "k.py:f  1.0 s  causal.definition: 1 of 4 entries differ; dropped after 1 failing clause")
