"""A run can be divided: every job is in one shard, the records say whose parts they are, and join to the whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import evaluation.cli
import pytest
import yaml
from attnspec.cli import main
from attnspec.core.errors import CONFORMS, UsageError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.plan import Item, Plan, Shard, deal_shards, read_shard
from attnspec.record.events import ItemFinished, RunFinished, RunStarted
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record, read_records
from attnspec.record.write import ShardsError, check_whole, plan_digest
from attnspec.runner.jobs import Sharing
from attnspec.spec.load import load_spec
from evaluation.false_alarms.jobs import as_part, cases_of_part, reopen_campaign, rows_of_part
from evaluation.false_alarms.rows import rows_of
from helpers.records import write_record

ITEMS = tuple(Item(target, clause, dtype) for target in ("a/one", "b/two", "c/three")
              for dtype in ("float32", "float16") for clause in ("core.shape", "core.dtype"))
CLAUSE = ("--clause", "attention.shape", "--effort", "glance", "-n", "1")


def header(shard: str = "", digest: str = "abc") -> RunStarted:
    return RunStarted("2026-01-01T00:00:00+00:00", ("attnspec", "check"), "1", "abcdef", 0, "glance", False, 2,
                      ("float32",), {}, (), shard=shard, plan_digest=digest if shard else "")


def test_a_shard_is_read_from_its_text() -> None:
    assert read_shard("2/5") == Shard(2, 5)
    assert str(Shard(2, 5)) == "2/5"


@pytest.mark.parametrize("text", ["2", "a/b", "2/5/6", "-1/5"])
def test_what_is_no_shard_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no shard\. The second of five is 2/5"):
        read_shard(text)


@pytest.mark.parametrize("text", ["0/5", "6/5", "1/99999"])
def test_a_shard_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"there is no shard {text}. Shards are counted from 1, as 2/5"):
        read_shard(text)


def test_the_dearest_goes_first_to_whoever_has_the_least_to_do() -> None:
    assert deal_shards({"a": 1.0, "b": 5.0, "c": 3.0, "d": 2.0}, 2) == (("b", "a"), ("c", "d"))


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_every_job_is_in_one_shard_in_the_order_of_the_run(count: int) -> None:
    shares = [Sharing(Shard(index, count)).select_jobs(ITEMS) for index in range(1, count + 1)]
    assert sorted(job for share in shares for job in share) == sorted(ITEMS)
    assert all([ITEMS.index(job) for job in share] == sorted(ITEMS.index(job) for job in share) for share in shares)


def test_a_subject_at_a_dtype_stays_together() -> None:
    for index in (1, 2, 3):
        mine = Sharing(Shard(index, 3)).select_jobs(ITEMS)
        assert len(mine) == 2 * len({(job.target, job.dtype) for job in mine})


def test_more_shards_than_there_is_work_are_refused() -> None:
    with pytest.raises(UsageError, match="a run of 6 pairs of subject and dtype cannot be divided into 7 shards"):
        Sharing(Shard(1, 7)).select_jobs(ITEMS)


def test_seconds_of_an_earlier_record_say_what_is_dear(tmp_path: Path, timings: Callable[..., Path]) -> None:
    path = timings(tmp_path / "before.jsonl", {"a/one": 90.0, "b/two": 10.0})
    items = [item for item in ITEMS if item.dtype == "float32"]
    first, second = (Sharing(Shard(index, 2), path).select_jobs(items) for index in (1, 2))
    assert {job.target for job in first} == {"a/one"}
    assert {job.target for job in second} == {"b/two", "c/three"}


@pytest.fixture
def timings() -> Callable[..., Path]:
    """Writes a record in which subjects took so many seconds at float32."""
    def write(path: Path, seconds: dict[str, float]) -> Path:
        outcomes = (Outcome(subject, "core.shape", DType.FLOAT32, Level.MUST, Verdict.HELD, seconds=each)
                    for subject, each in seconds.items())
        return write_record(path, header(), *map(ItemFinished, outcomes))

    return write


def test_shards_of_one_run_have_one_digest_whatever_the_machine() -> None:
    plan, shares = Plan(("a/one",)), ((("a/one", "float32"),),)
    elsewhere = replace(plan, implementations=("/elsewhere",), python="/usr/bin/python3")
    assert plan_digest(plan, "law", shares) == plan_digest(elsewhere, "law", shares)


@pytest.mark.parametrize(("seed", "law", "dtype"), [
    (1, "law", "float32"), (0, "new", "float32"), (0, "law", "float16")])
def test_a_run_with_other_options_clauses_or_shares_has_another_digest(seed: int, law: str, dtype: str) -> None:
    other = plan_digest(Plan(("a/one",), seed=seed), law, ((("a/one", dtype),),))
    assert other != plan_digest(Plan(("a/one",)), "law", ((("a/one", "float32"),),))


def test_a_run_that_is_whole_or_was_not_divided_is_accepted() -> None:
    check_whole([(Path("a"), header("1/2")), (Path("b"), header("2/2")), (Path("c"), header())])


def test_a_missing_shard_is_named() -> None:
    with pytest.raises(ShardsError, match=r"a\.jsonl: this is shard 1/4 of a run, of which 2/4 and 4/4 are missing"):
        check_whole([(Path("a.jsonl"), header("1/4")), (Path("b.jsonl"), header("3/4"))])


def test_many_missing_shards_are_counted() -> None:
    with pytest.raises(ShardsError, match="of which 2/9, 3/9, 4/9, 5/9, 6/9 and 3 more are missing"):
        check_whole([(Path("a.jsonl"), header("1/9"))])


def test_a_shard_of_another_run_is_named_with_its_fellow() -> None:
    told = "c.jsonl: this is shard 2/3 of the run def, but a.jsonl is shard 1/3 of the run abc: their options"
    with pytest.raises(ShardsError, match=told):
        check_whole([(Path("a.jsonl"), header("1/3")), (Path("b.jsonl"), header("3/3")),
                     (Path("c.jsonl"), header("2/3", "def"))])


def test_a_shard_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ShardsError, match=r"b\.jsonl: this is shard 1/2 of a run, and so is a\.jsonl\. Leave one"):
        check_whole([(Path("a.jsonl"), header("1/2")), (Path("b.jsonl"), header("1/2"))])


def judged(path: Path, *words: str) -> Path:
    assert main(["check", "numpy/attention", "sound/naive", *CLAUSE, *words, "--record", str(path)]) == CONFORMS
    return path


@pytest.mark.nightly
def test_two_shards_join_to_what_one_run_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = judged(tmp_path / "whole.jsonl")
    parts = [judged(tmp_path / f"{index}.jsonl", "--shard", f"{index}/2") for index in (1, 2)]
    headers = [read_record(part).header for part in parts]
    assert [each.shard for each in headers] == ["1/2", "2/2"]
    assert headers[0].plan_digest == headers[1].plan_digest
    assert main(["combine", *map(str, parts), "-o", str(tmp_path / "joined.jsonl")]) == 0
    joined = read_records(tmp_path / "joined.jsonl")
    found = [outcome for run in joined for outcome in run.outcomes]
    assert sorted(map(told, found)) == sorted(map(told, read_record(whole).outcomes))
    capsys.readouterr()
    assert main(["combine", str(parts[1]), "-o", str(tmp_path / "half.jsonl")]) == 2
    assert "1/2 is missing" in capsys.readouterr().err


@pytest.mark.parametrize(("verdicts", "ended", "code"), [
    ([Verdict.HELD, Verdict.HELD], [0, 0], 0), ([Verdict.HELD, Verdict.VIOLATED], [0, 1], 1),
    ([Verdict.HELD, Verdict.INAPPLICABLE], [0, 2], 0), ([Verdict.INAPPLICABLE, Verdict.INAPPLICABLE], [2, 2], 2),
    ([None, None], [0, 1], 1), ([None, None], [2, 0], 2), ([Verdict.HELD, Verdict.HELD], [0, None], 2)])
def test_joining_shards_ends_as_the_whole_run_would_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verdicts: list[Verdict | None], ended: list[int | None],
    code: int,
) -> None:
    parts = []
    for number, (verdict, exit_code) in enumerate(zip(verdicts, ended, strict=True), start=1):
        outcome = Outcome("a/one", f"core.{number}", DType.FLOAT32, Level.MUST, verdict) if verdict else None
        done = (ItemFinished(outcome),) if outcome else ()
        footer = (RunFinished("2026-01-01T00:00:00+00:00", 1.0, {}, exit_code),) if exit_code is not None else ()
        parts.append(write_record(tmp_path / f"{number}.jsonl", header(f"{number}/2"), *done, *footer))
    assert main(["combine", *map(str, parts), "-o", str(tmp_path / "joined.jsonl")]) == code
    assert f"2 shards of one run, which ends with exit code {code}" in capsys.readouterr().out


def told(outcome: Outcome) -> str:
    """All of an outcome but its time."""
    return repr(replace(outcome, seconds=0.0))


def test_timings_without_a_shard_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_record(tmp_path / "before.jsonl", header())
    assert main(["check", "numpy/attention", "--timings", str(path)]) == 2
    assert "--timings says how a run is divided: name the part as well, such as --shard 1/4." in capsys.readouterr().err


def test_a_shard_of_power_is_not_compared_with_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_record(tmp_path / "before.jsonl", header())
    assert evaluation.cli.main(["power", "--shard", "1/2", "--against", str(path)]) == 2
    assert "Join the shards first: attnspec combine." in capsys.readouterr().err


@pytest.mark.nightly
def test_a_campaign_is_divided_by_subject_and_dtype_with_its_cases() -> None:
    plan = Plan(("sound/naive", "torch/mha"))
    parts = [as_part(plan, Shard(index, 3), 9000) for index in (1, 2, 3)]
    assert sorted(map(repr, (row for part in parts for row in rows_of_part(part)))) == sorted(map(repr, rows_of(plan)))
    assert 9000 <= sum(cases_of_part(part, 9000) for part in parts) <= 9003
    assert rows_of_part(as_part(plan, None, 9000)) == rows_of(plan)


def test_a_campaign_does_not_go_on_in_the_record_of_another_shard(tmp_path: Path) -> None:
    path = write_record(tmp_path / "campaign.jsonl", replace(header("1/2"), spec_digest=load_spec(None).digest))
    with pytest.raises(UsageError, match="this campaign was started with shard 1/2; now it is 2/2"):
        reopen_campaign(path, as_part(Plan(("sound/naive",)), Shard(2, 2), 100), {})


GUIDE = (Path(__file__).parents[2] / "docs" / "shards.md").read_text(encoding="utf-8")


def test_the_matrix_of_the_guide_joins_as_many_shards_as_it_judges() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    jobs = yaml.safe_load(text)["jobs"]
    shards = jobs["judge"]["strategy"]["matrix"]["shard"]
    [command] = [step["run"] for step in jobs["judge"]["steps"] if "--shard" in step.get("run", "")]
    assert f"--shard ${{{{ matrix.shard }}}}/{len(shards)} " in command
    assert shards == list(range(1, len(shards) + 1))
    assert jobs["join"]["needs"] == "judge"


def test_the_array_of_the_guide_has_as_many_tasks_as_shards() -> None:
    tasks, shards = re.findall(r"--array=1-(\d+)\n", GUIDE), re.findall(r'--shard "\$SLURM_ARRAY_TASK_ID/(\d+)"', GUIDE)
    assert tasks == shards
    assert len(tasks) == 1
