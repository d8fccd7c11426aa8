"""A record is foreign input: what is damaged is told with its line, and nothing in it moves a cursor or misleads."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.cli.outputs import Outputs
from attnspec.core.errors import AttnspecError, RecordError
from attnspec.core.nouns import LARGEST_INTEGER, DType, Effort, Level, Verdict
from attnspec.core.paths import folder
from attnspec.core.texts import escape_hidden
from attnspec.record import read as visible_records
from attnspec.record.codec import DEEPEST_NESTING, from_line, to_line
from attnspec.record.events import Event, ItemFinished, RunFinished, SubjectKnown
from attnspec.record.outcome import ClauseText, Evidence, Explanation, KnownFinding, Outcome, SubjectCard
from attnspec.record.read import RunRecord, read_record, read_records
from attnspec.record.write import RecordWriter, combine_records, reopen_record
from attnspec.report.audit.markdown import audit_text
from attnspec.report.ci_files import junit_text
from attnspec.report.figures import (
    escape_text,
    fence_code,
    format_code,
    format_link,
    format_prose,
    format_row,
    web_address,
)
from attnspec.report.page import render_page
from evaluation.power.against import read_before
from evaluation.report.drawing import write_picture
from evaluation.report.power_view import markdown_table
from helpers.commands import Cli
from helpers.records import run_started, write_record

FINISHED = RunFinished("2026-01-01T00:00:01+00:00", 1.5, {}, 0)
HIDDEN = "a\x1b[2Jb\u202ec\x07d\x9be\ud800f\u200bg\u2028h\ri"
SHOWN = r"a\x1b[2Jb\u202ec\x07d\x9be\ud800f\u200bg\u2028h\x0di"
EVIL = "javascript:alert(1)"


def run(*events: Event) -> RunRecord:
    return RunRecord(run_started(), tuple(each for each in events if isinstance(each, SubjectKnown)),
                     tuple(each.outcome for each in events if isinstance(each, ItemFinished)), FINISHED)


# --- what cannot be read

def deep(levels: int) -> str:
    explained = replace(outcome_of("x"), evidence=Evidence("x", "", "", explained=Explanation("x", "x", "x", {"a": 1})))
    return to_line(ItemFinished(explained)).replace('{"a": 1}', '{"a": ' + "[" * levels + "]" * levels + "}")


def outcome_of(text: str) -> Outcome:
    return Outcome("a/b", "c.d", DType.FLOAT32, Level.MUST, Verdict.ERRORED, reason=text)


FOOTER = to_line(FINISHED)
LINES = {
    "nesting": ("[" * 100_000, "this line nests too deeply for a record."),
    "nesting within a field": (deep(DEEPEST_NESTING + 2),
                               "ItemFinished.outcome.evidence.explained.words.a nests too deeply"),
    "digits without end": (FOOTER.replace("1.5", "9" * 5000), "a number of this line has too many digits."),
    "a number beyond floats": (FOOTER.replace("1.5", "9" * 400),
                               "RunFinished.seconds should be a number that a float can hold, not 99999"),
    "a number beyond counts": (FOOTER.replace(": 0", f": {LARGEST_INTEGER}"),
                               "RunFinished.exit_code should be a whole number of at most 18 digits, not 1000000000"),
    "a number that JSON has not": (FOOTER.replace("1.5", "NaN"), "this line is not JSON: NaN is written as a string."),
    "an event that is a list": ('{"event": []}', "[] is not a known event. Known: "),
    "an event that is an object": ('{"event": {"a": 1}}', "{'a': 1} is not a known event."),
    "a histogram": ('{"event": "block_judged", "subject": "a", "dtype": "float32", "block": 0, "cases": 1, "slices": 1,'
                    ' "no_claims": 0, "violations": 0, "histogram": [-1]}',
                    "BlockJudged: a histogram has 44 counts of cases, none below zero."),
}
READERS: dict[str, Callable[[Path], object]] = {
    "report": read_records, "campaign": read_record, "combine": lambda path: combine_records([path], Path("out.jsonl")),
    "restart": reopen_record, "against": lambda path: read_before(path, effort=Effort.QUICK)}


def spoilt(path: Path, line: bytes) -> Path:
    """A record whose second line is this one."""
    path.write_bytes(f"{to_line(run_started())}\n".encode() + line + b"\n")
    return path


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_no_record_holds_is_named(here: Path, name: str) -> None:
    line, message = LINES[name]
    with pytest.raises(RecordError, match=re.escape(f"run.jsonl:2: {message}")):
        read_records(spoilt(here / "run.jsonl", line.encode()))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["nesting", "an event that is a list"])
def test_whoever_reads_a_record_names_the_line(here: Path, name: str, reader: str) -> None:
    with pytest.raises(RecordError, match=r"run\.jsonl:2: "):
        READERS[reader](spoilt(here / "run.jsonl", LINES[name][0].encode()))


def test_levels_that_a_record_may_have_are_read() -> None:
    assert isinstance(from_line(deep(DEEPEST_NESTING)), ItemFinished)


def test_bytes_that_are_no_text_are_named_with_their_line(here: Path) -> None:
    with pytest.raises(RecordError, match=r"run\.jsonl:2: this line is not UTF-8 text: byte 0xff cannot be read\."):
        read_records(spoilt(here / "run.jsonl", b"\xff"))


def test_a_packed_record_that_is_damaged_anywhere_is_an_error(here: Path) -> None:
    whole = gzip.compress(write_record(here / "run.jsonl", run_started(), FINISHED).read_bytes(), mtime=0)
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1:]):
            (here / "run.jsonl.gz").write_bytes(damaged)
            message = why_unread(here / "run.jsonl.gz")
            assert re.search(r"run\.jsonl\.gz: the record (cannot be read: .+\.|is empty)", message) or place < 10


def why_unread(path: Path) -> str:
    """Empty where it is read: some bytes of a gzip header say nothing. What is no RecordError fails the test."""
    try:
        read_records(path)
    except RecordError as problem:
        return str(problem)
    return ""


def test_commands_tell_damage_without_a_traceback(cli: Cli, evaluation_cli: Cli, here: Path) -> None:
    spoilt(here / "run.jsonl", b"[" * 100_000)
    for run, words in ((cli, "report run.jsonl"), (cli, "combine run.jsonl -o out.jsonl"),
                       (evaluation_cli, "power --against run.jsonl"), (evaluation_cli, "campaign --record run.jsonl")):
        code, out, err = run(*words.split())
        assert (code, out) == (2, "")
        assert err == "attnspec: run.jsonl:2: this line nests too deeply for a record.\n"


JUNK: tuple[object, ...] = (
    None, [], {}, "", "x", "nan", "inf", 0, -1, 1.5, 1e308, 10**17, True, ["a"], {"a": "b"}, "\ud800", EVIL, "a/b")


def places(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    parts = data.items() if isinstance(data, dict) else enumerate(data[:4]) if isinstance(data, list) else ()
    for name, part in parts:
        yield (*path, name)
        yield from places(part, (*path, name))


def mutated(lines: list[str], chance: random.Random) -> list[str]:
    """With one field of one line made something else, mostly of its own kind."""
    number = chance.choice([0, chance.randrange(len(lines))])
    data = json.loads(lines[number])
    *path, last = chance.choice(list(places(data)))
    parent = data
    for name in path:
        parent = parent[name]
    alike = [junk for junk in JUNK if type(junk) is type(parent[last])]
    parent[last] = chance.choice(alike if alike and chance.random() < 0.8 else JUNK)
    return [*lines[:number], json.dumps(data), *lines[number + 1:]]


def shown_everywhere(path: Path) -> None:
    """All that is made of a record."""
    records = read_records(path)
    for page in (render_page, junit_text, audit_text):
        page(records)
    markdown_table(records[0])
    combine_records([path], path.with_name("joined.jsonl"))
    write_picture(records[0], path.with_name("picture.svg"))


SOURCES = ("power/quick.jsonl", "power/campaign.jsonl", "time_machine/tm-jax-32300-buggy.jsonl.gz")


@pytest.mark.family(1)
@pytest.mark.parametrize("source", [pytest.param(SOURCES[0], marks=pytest.mark.nightly), *SOURCES[1:]])
def test_a_record_with_a_field_changed_is_shown_or_refused(here: Path, source: str) -> None:
    chance, whole = random.Random(source), folder("reports") / source
    written = gzip.decompress(whole.read_bytes()) if source.endswith("gz") else whole.read_bytes()
    lines = written.decode().split("\n")[:-1]
    for _ in range(25):
        some = [lines[0], *chance.sample(lines[1:], 12)]
        (here / "run.jsonl").write_text("\n".join(mutated(some, chance)) + "\n", encoding="utf-8")
        with suppress(AttnspecError):  # what else is raised fails the test
            shown_everywhere(here / "run.jsonl")


# --- what must not be shown as it is

def test_hidden_characters_are_shown_as_python_writes_them() -> None:
    assert escape_hidden(HIDDEN) == SHOWN
    assert escape_hidden("\U000e0041") == r"\U000e0041"
    assert escape_hidden("tab\tline\nend\r\n ü 注 ✓ 𝒳") == "tab\tline\nend\r\n ü 注 ✓ 𝒳"


def hidden_record() -> RunRecord:
    evidence = Evidence(HIDDEN, HIDDEN, HIDDEN, traceback=HIDDEN, stderr=HIDDEN)
    card = SubjectCard("a/b", HIDDEN, HIDDEN, HIDDEN, HIDDEN, f"https://example.org/{HIDDEN}", {}, {}, {}, (),
                       limits={HIDDEN: HIDDEN}, note=HIDDEN)
    outcome = replace(outcome_of(HIDDEN), evidence=evidence, repeat=HIDDEN)
    record = run(SubjectKnown(card, HIDDEN), ItemFinished(outcome))
    return replace(record, header=run_started(clauses=(ClauseText("c.d", says=HIDDEN),), environment={HIDDEN: HIDDEN}))


PAGES: dict[str, Callable[[list[RunRecord]], str]] = {"page": render_page, "JUnit": junit_text, "Markdown": audit_text}


@pytest.mark.parametrize("page", PAGES)
def test_no_page_holds_hidden_characters(page: str) -> None:
    written = PAGES[page]([hidden_record()])
    assert r"\x1b[2Jb\u202ec" in written.replace("\\\\", "\\").replace("\\[", "[")
    assert escape_hidden(written) == written


def test_a_record_without_hidden_characters_is_the_very_same() -> None:
    record = run(ItemFinished(outcome_of("plain")))
    assert visible_records.show_hidden(record) is record


def test_the_console_shows_hidden_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    record = hidden_record()
    header = replace(record.header, environment={"attnspec": "0", "workers": "1"}, planned={"a/b": 1}, items=1)
    handlers = Outputs.console().handlers()
    events: list[Event] = [header, *record.subjects, ItemFinished(record.outcomes[0]), replace(FINISHED, exit_code=1)]
    for event in events:
        for handler in handlers:
            handler.handle(event)
    for handler in handlers:
        handler.shutdown()
    assert f"seen: {SHOWN}" in stream.getvalue()
    assert escape_hidden(stream.getvalue()) == stream.getvalue()


def test_a_message_shows_hidden_characters(cli: Cli, here: Path) -> None:
    (here / "mine.py").write_text(f"def attend(): ...\nraise ValueError({HIDDEN!a})\n", encoding="utf-8")
    code, out, err = cli("smoke", "mine.py:attend")
    assert code == 2
    assert r"a\x1b[2Jb\u202ec" in out + err
    assert escape_hidden(out + err) == out + err


def test_a_record_holds_hidden_characters_as_json_escapes_them(here: Path) -> None:
    event = ItemFinished(outcome_of(HIDDEN + "\U000e0041"))
    assert from_line(to_line(event)) == event
    assert escape_hidden(to_line(event)) == to_line(event)
    writer = RecordWriter(here / "run.jsonl")
    writer.start()
    writer.handle(run_started())
    writer.handle(event)
    writer.shutdown()
    combine_records([here / "run.jsonl"], here / "joined.jsonl")
    assert read_record(here / "joined.jsonl").outcomes == (event.outcome,)


@pytest.mark.parametrize("url", [
    EVIL, "JavaScript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//example.org", "https:", "https://",
    "http:///x", " https://example.org", "https://example.org/a b", 'https://example.org/"x', "https://example.org/<x>",
    "",
    "https://example.org\\@evil.org", "https://example.org/`x`", "https://example.org/\n"])
def test_an_address_that_does_not_lead_to_the_web_is_no_link(url: str) -> None:
    assert web_address(url) == ""
    assert "](" not in format_link("name", url)


def test_addresses_of_the_web_are_links() -> None:
    assert format_link("home", "https://example.org/a_(b)|c") == "[home](https://example.org/a_%28b%29%7Cc)"
    assert web_address("http://example.org:80/x?y=z#w") == "http://example.org:80/x?y=z#w"


def evil_record() -> RunRecord:
    script = f"```\n\n[click]({EVIL})\n<img src=x>"
    issues = (EVIL, f"https://example.org) [z]({EVIL})", f"https://a/)[z]({EVIL}")
    found = tuple(KnownFinding(f"lib/{number}", f"[x]({EVIL}) see https://example.org/a_b <img> ` {EVIL}", ("c.d",),
                               ("float32",), script, f"[y]({EVIL})", issue) for number, issue in enumerate(issues))
    cards = [SubjectCard(f"lib/{number}", "", "attention", "", "", url, {}, {}, {}, (), install=f"` [p]({EVIL}) <img>",
                         issues=url, findings=found, note=f"https://a [n]({EVIL})")
             for number, url in enumerate((EVIL, f"https://x)[y]({EVIL}", "https://x/|y"))]
    items = [replace(outcome_of("x"), subject=card.id, repeat=f"` [r]({EVIL})",
                     evidence=Evidence(f"[s]({EVIL})", f"` | [c]({EVIL})", "")) for card in cards]
    return run(*map(SubjectKnown, cards), *map(ItemFinished, items))


def test_markdown_of_a_foreign_record_has_no_links_but_to_the_web() -> None:
    written = audit_text([evil_record()])
    blocks = re.sub(r"(?ms)^(`{3,})python$.*?^\1$", "", written)
    bare = re.sub(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)", "", blocks)  # what is code means nothing
    targets = re.findall(r"(?<!\\)\]\(([^)]*)\)", bare)
    assert [target for target in targets if not target.startswith(("https://", "http://", "reading-a-report.md"))] == []
    assert re.findall(r"(?<!\\)<", bare) == []
    assert EVIL in written


def test_pages_of_a_foreign_record_have_no_links_but_to_the_web() -> None:
    written = render_page([evil_record()])
    sound = ("https://", "http://", "#", "data:,")
    assert [each for each in re.findall(r'href="([^"]*)"', written) if not each.startswith(sound)] == []
    assert EVIL in written


def test_markdown_keeps_foreign_text_in_its_place() -> None:
    assert escape_text("*a* [b](c) <d> _e_ | f\ng") == r"\*a\* \[b\](c) \<d> \_e\_ \| f g"
    assert format_prose("see `a*b` and https://x.org/a_b [c](javascript:d)") == (
        r"see `a*b` and https://x.org/a_b \[c\](javascript:d)")
    assert format_prose("ftp://x [c](d)") == r"ftp://x \[c\](d)"  # what only looks like an address hides nothing
    assert format_code("a`b``c") == "``` a`b``c ```"
    assert format_code("plain") == "`plain`"
    assert fence_code("x = '```'\n", "python") == ["````python", "x = '```'", "````"]
    assert format_row(["a|b", r"c\|d"]) == r"| a\|b | c\|d |"


def test_a_report_of_a_hidden_record_is_written(here: Path) -> None:
    write_record(here / "run.jsonl", run_started(), ItemFinished(outcome_of(HIDDEN)), FINISHED)
    assert main(["report", "run.jsonl", "--junit", "j.xml", "--markdown", "m.md", "--baseline", "b.yaml"]) == 0
