"""What is written is what is read, and what is damaged is named with its file and line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from attnspec.core.errors import RecordError
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.paths import folder
from attnspec.core.plan import Plan
from attnspec.record.codec import decode, encode, from_line, record_schema, schema_text, to_line
from attnspec.record.events import Event, ItemFinished, ItemStarted, RunFinished, RunStarted, SubjectKnown
from attnspec.record.outcome import ClauseText, Evidence, Measured, Outcome, Picture, QuotedSource, SubjectCard
from attnspec.record.read import (
    BrokenLineError,
    DamagedRecordError,
    DuplicateItemError,
    EmptyRecordError,
    MissingHeaderError,
    UnknownFormatError,
    read_record,
)
from attnspec.record.write import RecordWriter, WriteMode
from helpers.records import run_started, write_record

MEASURED = Measured("agree", "they differ", margin=math.inf, gap=math.nan, allowance=1e-7, seen=-math.inf, expected=2.0,
                    index=(0, 1, 2), entries=9, claimed=8, wrong=3)
EVIDENCE = Evidence("they differ", "B=1", "B1;seed=3", MEASURED,
                    (Picture("weights", "T", "S", ((1.0, "nan"), ("-inf", 0.0))),), "Traceback", "warning: ü")
OUTCOME = Outcome("numpy/msa", "core.shape", DType.BFLOAT16, Level.MUST, Verdict.VIOLATED, cases=3, worst=MEASURED,
                  evidence=EVIDENCE, seconds=0.25)
CARD = SubjectCard("numpy/msa", "MSA", "attention", "numpy", "2.4", "https://numpy.org", {"hidden_row": "nan"}, {}, {},
                   ("core",))
STARTED = RunStarted("2026-01-01T00:00:00+00:00", ("attnspec", "check"), "1", "abc", 7, "quick", True, 1, ("bfloat16",),
                     {"python": "3.11"}, (ClauseText("core.shape", because=(QuotedSource("x"),)),))
FINISHED = RunFinished("2026-01-01T00:00:01+00:00", 1.5, {"violated": 1}, 1)
RUN: tuple[Event, ...] = (
    STARTED, SubjectKnown(CARD), ItemStarted("numpy/msa", "core.shape", "bfloat16"), ItemFinished(OUTCOME), FINISHED)


def edited(path: Path, number: int, change: Callable[[str], str]) -> Path:
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[number - 1] = change(lines[number - 1])
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("event", RUN, ids=lambda event: type(event).__name__)
def test_an_event_survives_its_line(event: Event) -> None:
    # NaN differs from itself, so the texts are compared; they hold every field
    assert to_line(from_line(to_line(event))) == to_line(event)
    assert type(from_line(to_line(event))) is type(event)


def test_a_card_says_how_large_an_error_passes_only_where_one_does() -> None:
    card = SubjectCard("a", "", "attention", "", "", "", {}, {}, {}, ())
    assert "passing_error" not in to_line(SubjectKnown(card))
    told = SubjectKnown(replace(card, passing_error="much passes"))
    assert from_line(to_line(told)) == told


def test_not_a_number_comes_back_as_a_number() -> None:
    back = decode(Measured, json.loads(json.dumps(encode(MEASURED))))
    assert math.isnan(back.gap)
    assert (back.margin, back.seen, back.index) == (math.inf, -math.inf, (0, 1, 2))


def test_a_plan_survives_json() -> None:
    plan = Plan(("numpy/msa",), dtypes=(DType.FLOAT16,), effort=Effort.THOROUGH, deadline=1.5)
    assert decode(Plan, json.loads(json.dumps(encode(plan)))) == plan


def test_a_record_cannot_hold_a_file() -> None:
    with pytest.raises(TypeError, match="cannot hold"):
        encode(Path())


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = read_record(write_record(tmp_path / "new" / "run.jsonl", *RUN))
    assert record.header == STARTED
    assert record.subjects == (SubjectKnown(CARD),)
    assert [outcome.evidence.pictures for outcome in record.outcomes if outcome.evidence] == [EVIDENCE.pictures]
    assert record.footer == FINISHED
    assert not record.is_interrupted
    assert not record.unfinished


def test_a_record_without_footer_is_interrupted(tmp_path: Path) -> None:
    record = read_record(write_record(tmp_path / "run.jsonl", *RUN[:3]))
    assert record.is_interrupted
    assert record.footer is None
    assert record.unfinished == (RUN[2],)


def test_a_line_cut_off_in_mid_write_costs_one_event(tmp_path: Path) -> None:
    path = write_record(tmp_path / "run.jsonl", *RUN)
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    record = read_record(path)
    assert record.is_interrupted
    assert len(record.outcomes) == 1


def test_a_record_that_lost_a_verdict_is_damaged(tmp_path: Path) -> None:
    path = write_record(tmp_path / "run.jsonl", *RUN[:3], FINISHED)
    with pytest.raises(DamagedRecordError, match=r"run.jsonl:4: .* 1 violated, where the lines before it have 0"):
        read_record(path)


def test_a_verdict_that_was_changed_makes_a_record_damaged(tmp_path: Path) -> None:
    path = edited(write_record(tmp_path / "run.jsonl", *RUN), 4, lambda line: line.replace('"violated"', '"held"'))
    with pytest.raises(DamagedRecordError, match="1 violated, where"):
        read_record(path)


def test_pairs_that_nobody_can_read_are_told_with_their_line(tmp_path: Path) -> None:
    path = write_record(tmp_path / "run.jsonl", STARTED, ItemFinished(replace(OUTCOME, met="not base85: ,,")))
    with pytest.raises(BrokenLineError, match=r"run.jsonl:2: .* not base85"):
        read_record(path)


def test_a_later_card_replaces_an_earlier_one(tmp_path: Path) -> None:
    record = read_record(write_record(tmp_path / "run.jsonl", STARTED, SubjectKnown(CARD, "no"), SubjectKnown(CARD)))
    assert record.subjects == (SubjectKnown(CARD),)


def test_every_line_is_on_disk_before_the_next_event(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "run.jsonl")
    writer.start()
    writer.handle(STARTED)
    assert read_record(tmp_path / "run.jsonl").header == STARTED
    writer.shutdown()


DAMAGES: dict[str, tuple[type[RecordError], int, Callable[[str], str], str]] = {
    "cut": (BrokenLineError, 2, lambda line: line[:40], "this line is not JSON .* at column"),
    "no event": (BrokenLineError, 2, lambda _: "[]", "this line is not an event"),
    "unknown event": (BrokenLineError, 2, lambda line: line.replace("subject_known", "subject_know"),
                      "'subject_know' is not a known event. Did you mean 'subject_known'"),
    "lacking": (BrokenLineError, 2, lambda line: line.replace('"title"', '"titel"'), "SubjectKnown.card lacks 'title'"),
    "stranger": (BrokenLineError, 2, lambda line: line.replace('"broken"', '"x": 1, "broken"'),
        "has 'x', which this version"),
    "wrong verdict": (BrokenLineError, 4, lambda line: line.replace('"violated"', '"broken"'),
        "'broken' is none of held"),
    "wrong kind": (BrokenLineError, 4, lambda line: line.replace('"cases": 3', '"cases": true'),
                   "outcome.cases should be a whole number, not True"),
    "wrong number": (BrokenLineError, 4, lambda line: line.replace('0.25', '"fast"'),
        "seconds should be a number, not 'fast'"),
    "wrong list": (BrokenLineError, 4, lambda line: line.replace('[0, 1, 2]', '0'), "index should be a list, not 0"),
    "wrong object": (BrokenLineError, 2, lambda line: line.replace('{"hidden_row": "nan"}', '0'),
        "should be an object, not 0"),
    "wrong card": (BrokenLineError, 2, lambda _: '{"event": "subject_known", "card": 0}',
        "card should be an object, not 0"),
    "no header": (MissingHeaderError, 1, lambda _: to_line(FINISHED), "starts with an event 'run_started'"),
    "future": (UnknownFormatError, 1, lambda line: line.replace('"format": 1', '"format": 2'),
        "format 2, and this version"),
    "twice": (DuplicateItemError, 5, lambda _: to_line(RUN[3]), "numpy/msa-core.shape-bfloat16 has a second outcome"),
    "two runs": (DuplicateItemError, 5, lambda _: to_line(STARTED), "a second run starts here"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_file_and_line(tmp_path: Path, name: str) -> None:
    error, number, change, text = DAMAGES[name]
    path = edited(write_record(tmp_path / "run.jsonl", *RUN), number, change)
    with pytest.raises(error, match=re.escape(f"{path}:{number}: ") + f".*{text}"):
        read_record(path)


def test_an_empty_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").touch()
    with pytest.raises(EmptyRecordError, match="the record holds no whole line"):
        read_record(tmp_path / "run.jsonl")


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl: the record cannot be read"):
        read_record(tmp_path / "none.jsonl")


@pytest.mark.parametrize("event", RUN, ids=lambda event: type(event).__name__)
def test_the_schema_accepts_what_is_written(event: Event) -> None:
    jsonschema.Draft202012Validator(record_schema()).validate(json.loads(to_line(event)))


BROKEN = [name for name, damage in DAMAGES.items() if damage[0] is BrokenLineError and name != "cut"]


@pytest.mark.parametrize("name", BROKEN)
def test_the_schema_refuses_what_the_reader_refuses(name: str) -> None:
    _, number, change, _ = DAMAGES[name]
    damaged = json.loads(change(to_line(RUN[number - 1])))
    assert not jsonschema.Draft202012Validator(record_schema()).is_valid(damaged)


def test_the_published_schema_is_the_one_in_the_code() -> None:
    published = folder("reports") / "page" / "record.schema.json"
    assert published.read_text(encoding="utf-8") == schema_text(), "run `attnspec schema --write`"


@pytest.mark.parametrize("mode", [WriteMode.NEW, WriteMode.REPLACE])
def test_a_run_that_is_refused_leaves_no_record(tmp_path: Path, mode: WriteMode) -> None:
    writer = RecordWriter(tmp_path / "run.jsonl", mode)
    writer.start()
    writer.shutdown()
    assert not (tmp_path / "run.jsonl").exists()


def test_a_run_that_is_refused_leaves_the_record_of_an_earlier_one(tmp_path: Path) -> None:
    for events in ([run_started(seed=1)], [], [run_started(seed=2)]):
        writer = RecordWriter(tmp_path / "run.jsonl")
        writer.start()
        for event in events:
            writer.handle(event)
        writer.shutdown()
        assert read_record(tmp_path / "run.jsonl").header.seed == (2 if events == [run_started(seed=2)] else 1)
