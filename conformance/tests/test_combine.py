"""Records of several environments as one: nothing is lost, nothing is judged twice, and all by the same law."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.cli.report import with_findings
from attnspec.core.errors import RecordError, UsageError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.events import (
    Event,
    Found,
    ItemFinished,
    ItemStarted,
    RunFinished,
    RunStarted,
    SubjectKnown,
    SubjectProbed,
)
from attnspec.record.outcome import Outcome, SubjectCard
from attnspec.record.read import DuplicateItemError, read_record, read_records
from attnspec.record.write import MismatchedSpecError, combine_records
from helpers.records import write_record


def header(**environment: str) -> RunStarted:
    return RunStarted("2026-01-01T00:00:00+00:00", ("attnspec", "audit"), "1", "abcdef", 0, "glance", False, 2,
                      ("float32",), {"numpy": "2", "workers": "1", **environment}, ())


def events_of_run(subject: str, **environment: str) -> tuple[Event, ...]:
    """A run in which a subject was tried under one clause and probed."""
    return (
        header(**environment), SubjectKnown(SubjectCard(subject, subject, "", "", "", "", {}, {}, {}, ())),
        ItemStarted(subject, "core.shape", "float32"),
        ItemFinished(Outcome(subject, "core.shape", DType.FLOAT32, Level.MUST, Verdict.HELD)),
        ItemStarted(subject, "probe", "float32"),
        SubjectProbed(subject, "", DType.FLOAT32, (Found("mask.polarity", "?", "keep"),)),
        RunFinished("2026-01-01T00:00:01+00:00", 1.0, {"held": 1}, 0))


@pytest.fixture
def both(tmp_path: Path) -> list[Path]:
    return [write_record(tmp_path / "a.jsonl", *events_of_run("a/one", torch="2")),
            write_record(tmp_path / "b.jsonl", *events_of_run("b/two", jax="0.10"))]


def test_every_run_keeps_its_environment_its_outcomes_and_its_probes(both: list[Path], tmp_path: Path) -> None:
    combine_records(both, tmp_path / "new" / "joined.jsonl")
    assert read_records(tmp_path / "new" / "joined.jsonl") == tuple(map(read_record, both))


def test_what_was_joined_can_be_joined_again(both: list[Path], tmp_path: Path) -> None:
    third = write_record(tmp_path / "c.jsonl", *events_of_run("c/three"))
    combine_records(both, tmp_path / "ab.jsonl")
    combine_records([tmp_path / "ab.jsonl", third], tmp_path / "abc.jsonl")
    assert [run.outcomes[0].subject for run in read_records(tmp_path / "abc.jsonl")] == ["a/one", "b/two", "c/three"]


def test_a_record_may_be_replaced_by_what_it_is_joined_to(both: list[Path]) -> None:
    combine_records(both, both[0])
    assert len(read_records(both[0])) == 2


def test_records_of_different_laws_are_refused_by_name(both: list[Path], tmp_path: Path) -> None:
    other = write_record(both[1], replace(header(), spec_digest="123456"))
    text = f"{other}: this was judged by the spec 123456, and {both[0]} by abcdef. Judge both by the same spec."
    with pytest.raises(MismatchedSpecError, match=re.escape(text)):
        combine_records(both, tmp_path / "joined.jsonl")
    assert not (tmp_path / "joined.jsonl").exists()


@pytest.mark.parametrize(("kept", "named"), [(4, "a/one-core.shape-float32"), (6, "a/one-probe-float32")])
def test_what_is_judged_twice_in_an_environment_is_refused_with_places(
    both: list[Path], tmp_path: Path, kept: int, named: str,
) -> None:
    # how many worked at it is no part of an environment
    again = events_of_run("a/one", torch="2", workers="8")
    write_record(both[1], again[0], again[kept - 1])
    text = (f"{both[1]}:2: {named} was judged in the same environment at {both[0]}:{kept} already. "
            "Leave one of the records out.")
    with pytest.raises(DuplicateItemError, match=re.escape(text)):
        combine_records(both, tmp_path / "joined.jsonl")


def test_one_subject_in_two_environments_stands_side_by_side(both: list[Path], tmp_path: Path) -> None:
    write_record(both[1], *events_of_run("a/one", torch="3"))
    combine_records(both, tmp_path / "joined.jsonl")
    assert [run.header.environment["torch"] for run in read_records(tmp_path / "joined.jsonl")] == ["2", "3"]


def test_an_interrupted_run_stays_one_and_what_it_was_at_is_kept(both: list[Path], tmp_path: Path) -> None:
    write_record(both[0], *events_of_run("a/one")[:3])
    combine_records(both, tmp_path / "joined.jsonl")
    first, second = read_records(tmp_path / "joined.jsonl")
    assert first.is_interrupted
    assert [item.subject for item in first.unfinished] == ["a/one"]
    assert not second.is_interrupted


def test_of_an_interrupted_run_the_finished_subjects_can_be_taken(both: list[Path], tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planned = {"a/one": 2, "a/two": 2}
    whole, begun = events_of_run("a/one")[:-1], events_of_run("a/two")[1:-2]
    write_record(both[0], replace(header(), planned=planned, items=4), *whole[1:], *begun)
    assert main(["combine", "--finished", "a.jsonl", "b.jsonl", "-o", "j.jsonl"]) == 0
    first, second = read_records(tmp_path / "j.jsonl")
    assert [known.card.id for known in first.subjects] == ["a/one"]
    assert (first.header.items, first.header.planned, first.finished_count) == (2, {"a/one": 2}, 2)
    assert first.footer == RunFinished("2026-01-01T00:00:00+00:00", 0.0, {"held": 1}, 0)
    assert not second.is_interrupted


def test_a_record_that_cannot_be_written_is_a_usage_error(both: list[Path]) -> None:
    with pytest.raises(UsageError, match=r"x\.jsonl cannot be written"):
        combine_records(both, both[0] / "x.jsonl")


def test_a_record_that_cannot_be_read_is_named(both: list[Path], tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl: the record cannot be read"):
        combine_records([*both, tmp_path / "none.jsonl"], tmp_path / "joined.jsonl")


def test_the_command_joins_and_tells_of_interruptions(
    both: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_record(both[0], *events_of_run("a/one")[:4])
    assert main(["combine", "a.jsonl", "b.jsonl", "-o", "j.jsonl", "--html", "j.html"]) == 0
    assert capsys.readouterr().out == ("a.jsonl: the run was interrupted; 1 of 2 items are known\n"
                                       "record: j.jsonl (2 runs, 3 items)\npage: j.html\n")
    assert "b/two" in (tmp_path / "j.html").read_text(encoding="utf-8")
    assert main(["report", "j.jsonl", "--html", "again.html"]) == 0
    assert capsys.readouterr().out == ("j.jsonl: run 1 was interrupted; 1 of 2 items are known\npage: again.html\n")


@pytest.mark.parametrize(("ending", "magic"), [("gz", b"\x1f\x8b"), ("xz", b"\xfd7zXZ")])
def test_a_record_may_be_packed_and_is_read_as_it_was(
        both: list[Path], tmp_path: Path, ending: str, magic: bytes) -> None:
    combine_records(both, tmp_path / "plain.jsonl")
    packed, again = (tmp_path / f"{name}.jsonl.{ending}" for name in ("packed", "again"))
    for path in (packed, again):
        combine_records(both, path)
    read = [[(record.header, record.subjects, record.outcomes, record.probes, record.footer)
             for record in read_records(path)] for path in (tmp_path / "plain.jsonl", packed)]
    assert read[0] == read[1]
    assert packed.read_bytes().startswith(magic)
    assert packed.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("ending", ["gz", "xz"])
@pytest.mark.parametrize("damage", [b"not packed at all", b""])
def test_a_packed_record_that_is_damaged_is_named(tmp_path: Path, damage: bytes, ending: str) -> None:
    bad = tmp_path / f"bad.jsonl.{ending}"
    bad.write_bytes(damage)
    with pytest.raises(RecordError, match=re.escape(bad.name)):
        read_records(bad)


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_a_packed_record_that_was_cut_off_is_named(both: list[Path], tmp_path: Path, ending: str) -> None:
    whole, half = tmp_path / f"whole.jsonl.{ending}", tmp_path / f"half.jsonl.{ending}"
    combine_records(both, whole)
    half.write_bytes(whole.read_bytes()[:-12])
    with pytest.raises(RecordError, match=rf"{re.escape(half.name)}: the record cannot be read"):
        read_records(half)


def test_findings_and_notes_can_be_told_as_they_are_known_now() -> None:
    card = SubjectCard("torch/sdpa", "", "attention", "torch", "2.13.0", "", {}, {}, {}, ())
    retold = with_findings(SubjectKnown(card))
    assert isinstance(retold, SubjectKnown)
    assert retold.card == replace(card, findings=retold.card.findings, note=retold.card.note)
    assert "documented to raise" in retold.card.note
    assert any("flash" in finding.says and "import torch" in finding.script for finding in retold.card.findings)
    assert "torch/cudnn_gradient_layout" not in {finding.id for finding in retold.card.findings}
    on_gpu = with_findings(SubjectKnown(replace(card, lives_in={"device": "cuda:1"})))
    assert isinstance(on_gpu, SubjectKnown)
    assert "torch/cudnn_gradient_layout" in {finding.id for finding in on_gpu.card.findings}
    stranger = SubjectKnown(replace(card, id="nobody/knows", findings=()))
    assert with_findings(stranger) == stranger
