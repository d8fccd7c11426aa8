"""A record as JUnit XML: what gates fails, what was not judged is an error, and what only advises is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attnspec.cli.group import attnspec
from attnspec.cli.outputs import VerdictFile
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Level, Novelty, Verdict
from attnspec.record.codec import to_line
from attnspec.record.events import Event, ItemFinished, RunFinished, SubjectKnown
from attnspec.record.outcome import Change, ClauseText, Evidence, Explanation, Likeness, Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.ci_files import junit_text, write_junit
from click.testing import CliRunner
from helpers.records import run_started

SUBJECT = "lib/attend"
MEASURED = Measured("agree", "agree", 3.0, 0.5, 0.125, 1.0, 0.5, (0, 0), 4, 4, 1)
EVIDENCE = Evidence("1 of 4 entries differ", "B=1 T=2", "B1;T2", MEASURED, traceback="Traceback: here",
                    stderr="a warning", like=(Likeness("late_mask", "mask", "The mask comes late.", "", 3, 3),))


def outcome(verdict: Verdict, name: str = "core.agrees", *, level: Level = Level.MUST, reason: str = "",
            evidence: Evidence | None = None) -> Outcome:
    return Outcome(SUBJECT, name, DType.FLOAT32, level, verdict, reason, 3, 0, None, evidence, 0.25,
                   repeat="attnspec replay 'lib/attend core.agrees float32 B1;T2'")


def run(*outcomes: Outcome, strict: bool = False, broken: str = "", is_whole: bool = True) -> RunRecord:
    clauses = tuple(ClauseText(name, says=f"{name} holds.")
                    for name in dict.fromkeys(each.clause for each in outcomes))
    header = run_started(strict=strict, items=len(outcomes), clauses=clauses)
    card = SubjectCard(SUBJECT, "", "attention", "lib", "1.2", "", {}, {}, {}, ())
    return RunRecord(header, (SubjectKnown(card, broken),), outcomes,
                     RunFinished("", 1.0, {}, 0) if is_whole else None)


def tree(*outcomes: Outcome, strict: bool = False, broken: str = "", is_whole: bool = True) -> ElementTree.Element:
    return ElementTree.fromstring(junit_text([run(*outcomes, strict=strict, broken=broken, is_whole=is_whole)]))


def one(root: ElementTree.Element, path: str) -> ElementTree.Element:
    (found,) = root.findall(path)
    return found


def test_a_suite_is_a_subject_and_a_case_a_clause_at_a_dtype() -> None:
    root = tree(outcome(Verdict.HELD), outcome(Verdict.VIOLATED, "core.rows", evidence=EVIDENCE))
    suite = one(root, "testsuite")
    assert suite.attrib == {"name": SUBJECT, "tests": "2", "failures": "1", "errors": "0", "skipped": "0",
                            "time": "0.5", "timestamp": "2026-01-02T03:04:05"}
    assert [case.attrib for case in suite.findall("testcase")] == [
        {"classname": "lib.attend", "name": f"core.{name}[float32]", "time": "0.25"} for name in ("agrees", "rows")]
    assert {each.get("name"): each.get("value") for each in suite.iter("property")} == {
        "library": "lib", "version": "1.2", "held": "1 of 2 applicable", "effort": "quick", "seed": "7",
        "spec": "0.1 ffffffffffff"}
    assert root.attrib == {"name": "attnspec", "tests": "2", "failures": "1", "errors": "0", "time": "0.5"}


def test_a_suite_tells_the_share_of_what_applies() -> None:
    found = tree(*(outcome(verdict, f"core.{verdict.value}")
                   for verdict in (Verdict.HELD, Verdict.INAPPLICABLE, Verdict.VIOLATED)))
    assert one(found, ".//property[@name='held']").get("value") == "1 of 2 applicable"
    assert tree(outcome(Verdict.INAPPLICABLE)).find(".//property[@name='held']") is None


def test_a_suite_names_what_its_subject_refuses() -> None:
    root = tree(replace(outcome(Verdict.HELD), refused={"D > 200": "ValueError: too wide"}))
    assert one(root, ".//property[@name='refuses']").get("value") == "D > 200"


def test_a_violation_is_a_failure_with_all_of_its_evidence() -> None:
    failure = one(tree(outcome(Verdict.VIOLATED, reason="they differ", evidence=EVIDENCE)), ".//failure")
    assert failure.attrib == {"message": "they differ", "type": "violated"}
    assert failure.text == (
        "must: core.agrees holds.\n1 of 4 entries differ\ncase: B=1 T=2\nmargin: 3 (gap 0.5, 0.125 allowed)\n"
        "like: late_mask (The mask comes late.)\nrepeat it: attnspec replay 'lib/attend core.agrees float32 B1;T2'\n"
        "\nTraceback: here")


def test_a_wider_arithmetic_is_told_before_what_was_seen() -> None:
    explained = Explanation("every step is rounded to float16", "Accumulate in float32, or declare it:", "attend.x = 1")
    failure = one(tree(outcome(Verdict.VIOLATED, evidence=replace(EVIDENCE, explained=explained))), ".//failure")
    assert failure.text is not None
    assert failure.text.startswith(
        "must: core.agrees holds.\ncause: every step is rounded to float16\ndo: Accumulate in float32, or declare it:\n"
        "paste: attend.x = 1\n1 of 4 entries differ\n")


def test_what_was_written_to_stderr_comes_along() -> None:
    assert one(tree(outcome(Verdict.ERRORED, evidence=EVIDENCE)), ".//system-err").text == "a warning"


@pytest.mark.parametrize(("verdict", "element", "message"), [
    (Verdict.VIOLATED, "failure", "why"), (Verdict.UNEXPECTED, "failure", "why"),
    (Verdict.ERRORED, "error", "errored: why"), (Verdict.CRASHED, "error", "crashed: why"),
    (Verdict.TIMED_OUT, "error", "timed out: why"), (Verdict.NOT_RUN, "error", "not run: why"),
    (Verdict.EXPECTED, "skipped", "known deviation: why"), (Verdict.NO_CLAIM, "skipped", "no claim: why"),
    (Verdict.INAPPLICABLE, "skipped", "why")])
def test_every_verdict_but_held_has_its_element(verdict: Verdict, element: str, message: str) -> None:
    case = one(tree(outcome(verdict, reason="why")), ".//testcase")
    assert [(each.tag, each.get("message"), each.get("type")) for each in case] == [(element, message, verdict.value)]


def test_advice_that_is_not_followed_is_skipped_unless_the_run_is_strict() -> None:
    advised = outcome(Verdict.VIOLATED, level=Level.SHOULD, reason="why")
    assert one(tree(advised), ".//skipped").get("message") == "violated, but a `should` clause only advises: why"
    assert one(tree(advised, strict=True), ".//failure").get("message") == "why"


def test_what_was_not_judged_is_never_green() -> None:
    assert one(tree(broken="ImportError: no"), ".//testcase[@name='adapter']/error").get("message") == "ImportError: no"
    halved = one(tree(outcome(Verdict.HELD), is_whole=False), "testsuite[@name='attnspec']//error")
    assert halved.get("message") == "the run was interrupted"
    assert one(tree(), "testsuite[@name='attnspec']//error").get("message") == "nothing was executed"


def test_a_reason_that_kept_items_from_running_is_one_error() -> None:
    lost = [outcome(Verdict.NOT_RUN, f"core.{number}", reason="no module") for number in range(3)]
    suite = one(tree(*lost, broken="no module"), f"testsuite[@name='{SUBJECT}']")
    assert suite.get("tests") == suite.get("errors") == "1"
    assert one(suite, "testcase[@name='adapter']/error").get("message") == "no module (3 items not run)"
    beside = one(tree(outcome(Verdict.HELD, "core.held"), *lost), "testsuite")
    assert (beside.get("tests"), beside.get("errors")) == ("2", "1")
    assert one(beside, "testcase[@name='not run']/error").get("message") == "no module (3 items not run)"


def test_a_suite_tells_the_environment_of_its_subject() -> None:
    whole = run(outcome(Verdict.HELD))
    lives_in = {"python": "CPython 3.12.1", "numpy": "2.1.0", "torch": "2.13.0", "device": "cpu"}
    card = replace(whole.subjects[0].card, id="mine.py:attend", distribution="", version="", lives_in=lives_in)
    record = replace(whole, subjects=(SubjectKnown(card),), outcomes=(replace(whole.outcomes[0], subject=card.id),))
    suite = one(ElementTree.fromstring(junit_text([record])), "testsuite")
    told = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert told == {**lives_in, "held": "1 of 1 applicable", "effort": "quick", "seed": "7", "spec": "0.1 ffffffffffff"}


ALLOWED = {  # of junit-10.xsd of Jenkins' xUnit plugin: attributes, and elements inside
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id",
                   "package", "file", "log", "url"},
                  {"testsuite", "properties", "testcase", "system-out", "system-err"}),
    "properties": (set(), {"property"}), "property": ({"name", "value"}, set()),
    "testcase": ({"name", "time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    **dict.fromkeys(("skipped", "error", "failure"), ({"type", "message"}, set())), "system-err": (set(), set()),
}


def test_it_keeps_to_the_schema_that_jenkins_holds_it_to() -> None:
    every = [outcome(verdict, f"core.{verdict.value}", evidence=EVIDENCE) for verdict in Verdict]
    for element in tree(*every, broken="no", is_whole=False).iter():
        attributes, inside = ALLOWED[element.tag]
        assert attributes.issuperset(element.keys())
        assert inside.issuperset(each.tag for each in element)


def test_signs_that_xml_cannot_hold_are_shown() -> None:
    told = "\x1b[31mred\x00 <b>&\ud800"
    failure = one(tree(outcome(Verdict.VIOLATED, reason=told)), ".//failure")
    assert failure.get("message") == r"\x1b[31mred\x00 <b>&\ud800"


def test_it_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    write_junit([run(outcome(Verdict.HELD))], tmp_path / "new" / "junit.xml")
    assert ElementTree.parse(tmp_path / "new" / "junit.xml").getroot().tag == "testsuites"


def test_what_is_new_says_so_first() -> None:
    new = replace(outcome(Verdict.VIOLATED, reason="why"), change=Change(Novelty.NEW, "", Verdict.VIOLATED))
    assert one(tree(new), ".//failure").get("message") == "new: why"


def test_the_command_report_writes_it_from_a_record(tmp_path: Path) -> None:
    record = run(outcome(Verdict.HELD))
    assert record.footer is not None
    events: tuple[Event, ...] = (
        replace(record.header, items=1), *record.subjects, *map(ItemFinished, record.outcomes), record.footer)
    (tmp_path / "run.jsonl").write_text("".join(f"{to_line(event)}\n" for event in events), encoding="utf-8")
    made = CliRunner().invoke(attnspec, ["report", str(tmp_path / "run.jsonl"), "--junit", str(tmp_path / "junit.xml")])
    assert made.exit_code == 0, made.output
    assert f"junit: {tmp_path / 'junit.xml'}" in made.output
    assert one(ElementTree.parse(tmp_path / "junit.xml").getroot(), "testsuite").get("tests") == "1"


def test_a_check_writes_it_once_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "new" / "junit.xml"
    made = CliRunner().invoke(attnspec, [
        "check", "numpy/attention", "--clause", "attention.shape", "--dtype", "float32", "--effort", "quick", "-n", "1",
        "--no-record", "--junit", str(path)], standalone_mode=False)
    assert made.exception is None, made.output
    assert f"\njunit: {path}\n" in made.output
    suite = one(ElementTree.parse(path).getroot(), "testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("numpy/attention", "1", "0")


def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"the JUnit file .* cannot be written"):
        VerdictFile("junit", "JUnit file", tmp_path / "file" / "junit.xml", write_junit).start()


def test_where_a_failure_begins_is_said_first() -> None:
    begins, wrong = "Fails where T ≥ 65; holds at T = 64.", "At B=2 H=2: rows 64 to 128 of every head."
    found = outcome(Verdict.VIOLATED, reason="they differ", evidence=replace(EVIDENCE, begins=begins, wrong=wrong))
    failure = one(tree(found), "testsuite/testcase/failure")
    assert failure.get("message") == f"{begins} they differ"
    assert (failure.text or "").split("\n")[1:3] == [f"begins: {begins}", f"wrong: {wrong}"]
