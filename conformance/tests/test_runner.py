"""From a plan to events, an exit code and a record, before an engine that knows no attention (stubs/stub_engine.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.record.events import (
    Event,
    ItemFinished,
    ItemStarted,
    RunFinished,
    RunStarted,
    SubjectCompiles,
    SubjectKnown,
)
from attnspec.record.outcome import Outcome, QuotedSource
from attnspec.record.read import read_record
from attnspec.record.write import RecordWriter
from attnspec.runner.jobs import exit_code, plan_of
from attnspec.runner.judge import describe_clause, read_replay, replay_command
from attnspec.runner.listener import Listener as Controller
from attnspec.runner.session import Result, Session
from attnspec.runner.worker import Guard
from attnspec.spec.load import load_spec

pytestmark = pytest.mark.workers

Run = Callable[..., tuple[Result, list[Event]]]


class Listener:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.is_shut_down = False

    def start(self) -> None:
        pass

    def handle(self, event: Event) -> None:
        self.events.append(event)

    def shutdown(self) -> None:
        self.is_shut_down = True


@pytest.fixture
def run(stubs: Path) -> Run:  # noqa: ARG001  (on the path)
    def run_clauses(*clauses: str, targets: tuple[str, ...] = ("stub",), workers: int = 1, recipe: str = "",
                    strict: bool = False) -> tuple[Result, list[Event]]:
        plan = Plan(targets, clauses=tuple(f"stub.{name}" for name in clauses), strict=strict, deadline=20)
        listener = Listener()
        result = Session(plan, workers, engine="stub_engine:Engine", recipe=recipe).run([listener])
        assert listener.is_shut_down
        return result, listener.events

    return run_clauses


def verdicts(result: Result) -> dict[str, str]:
    return {outcome.clause.removeprefix("stub."): outcome.verdict.value for outcome in result.outcomes}


def test_events_come_in_their_order(run: Run) -> None:
    _, events = run("held")
    assert [type(event) for event in events] == [RunStarted, ItemStarted, SubjectKnown, ItemFinished, RunFinished]


def test_the_header_says_what_is_planned_and_keeps_the_clauses(run: Run) -> None:
    _, events = run("held", "violated", targets=("a", "b"))
    header = events[0]
    assert isinstance(header, RunStarted)
    assert (header.items, dict(header.planned)) == (4, {"a": 2, "b": 2})
    assert [clause.id for clause in header.clauses] == ["stub.held", "stub.violated"]
    assert header.clauses[0].because == (
        QuotedSource("paper", "3.2", "so it is", title="A paper", url="https://example.org"),)
    assert header.environment["threads"] == "1 a worker"


def test_a_record_keeps_a_quote_and_its_translation() -> None:
    law = load_spec()
    [clause] = [clause for clause in law.clauses if clause.id == "attention.convex_hull"]
    kept = [(source.quote, source.translation) for source in describe_clause(clause, law).because]
    assert ("加权求和", "weighted sum") in kept


def test_the_footer_counts_every_verdict(run: Run) -> None:
    result, events = run("held", "violated", "lacking", "vague", "raised", "listed", "mended")
    footer = events[-1]
    assert isinstance(footer, RunFinished)
    assert dict(footer.counts) == {
        "held": 1, "violated": 1, "inapplicable": 1, "no_claim": 1, "errored": 1, "expected": 1, "unexpected": 1}
    assert (footer.exit_code, result.exit_code, footer.interrupted) == (1, 1, False)


def test_a_counterexample_can_be_repeated(run: Run) -> None:
    [outcome] = run("violated")[0].outcomes
    assert outcome.evidence is not None
    assert outcome.repeat == f"attnspec replay 'stub stub.violated float32 {outcome.evidence.recipe}'"


def test_a_replay_judges_the_one_case(run: Run) -> None:
    [outcome] = run("violated", recipe="B1;seed=9")[0].outcomes
    assert outcome.reason == "replayed B1;seed=9"


def test_a_subject_is_introduced_once_by_all_workers(run: Run) -> None:
    _, events = run("held", "violated", "lacking", "vague", workers=2)
    assert [event.card.id for event in events if isinstance(event, SubjectKnown)] == ["stub"]


def test_an_item_that_does_not_apply_has_no_report_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    take_report = Controller.pytest_runtest_logreport

    def note_report(listener: Controller, report: pytest.TestReport) -> None:
        reported.append(report.nodeid)
        take_report(listener, report)

    monkeypatch.setattr(Controller, "pytest_runtest_logreport", note_report)
    result, events = run("held", "lacking")
    assert [name.rpartition("[")[2] for name in reported] == ["stub-stub.held-float32]"]
    assert verdicts(result) == {"held": "held", "lacking": "inapplicable"}
    assert [type(event) for event in events[-3:]] == [ItemStarted, ItemFinished, RunFinished]


def test_a_worker_that_dies_takes_no_verdict_with_it(run: Run) -> None:
    result, _ = run("held", "lacking", "crash")
    assert verdicts(result) == {"held": "held", "lacking": "inapplicable", "crash": "not_run"}


def test_whoever_names_a_target_or_clause_twice_means_it_once(run: Run) -> None:
    result, _ = run("held", "held", targets=("a", "a"))
    assert len(result.outcomes) == 1


def test_a_subject_that_cannot_be_had_is_not_run_and_says_why(run: Run) -> None:
    result, events = run("held", "broken", targets=("none",))
    assert verdicts(result)["broken"] == "not_run"
    broken = [event.broken for event in events if isinstance(event, SubjectKnown)]
    assert broken == ["stub: its import fails."]
    assert result.exit_code == 2


def test_a_failure_of_our_own_is_a_defect_and_the_rest_goes_on(run: Run) -> None:
    result, _ = run("defect", "held")
    assert verdicts(result) == {"defect": "not_run", "held": "held"}
    assert "ZeroDivisionError: a defect of attnspec itself" in result.defects[0]
    assert result.exit_code == 2


def test_where_we_failed_ourselves_the_footer_does_not_say_violated(run: Run) -> None:
    result, events = run("defect", "violated")
    assert verdicts(result)["violated"] == "violated"
    assert [event.exit_code for event in events if isinstance(event, RunFinished)] == [result.exit_code] == [2]


@pytest.mark.usefixtures("stubs")
def test_a_failure_before_any_item_is_a_defect_too() -> None:
    result = Session(Plan(("stub",), clauses=("stub.held",)), engine="stub_engine:FailingEngine").run([])
    assert "ZeroDivisionError: a defect of attnspec itself" in result.defects[0]
    assert [outcome.verdict for outcome in result.outcomes] == [Verdict.NOT_RUN]


class Clumsy(Listener):
    def handle(self, event: Event) -> None:
        if isinstance(event, ItemStarted):
            raise ZeroDivisionError("a handler that fails")


@pytest.mark.usefixtures("stubs")
def test_a_handler_that_fails_is_a_defect_and_the_run_has_its_footer() -> None:
    listener = Listener()
    result = Session(Plan(("stub",), clauses=("stub.held",)), engine="stub_engine:Engine").run([listener, Clumsy()])
    assert "ZeroDivisionError: a handler that fails" in result.defects[0]
    assert isinstance(listener.events[-1], RunFinished)
    assert result.exit_code == 2


def test_the_suite_is_not_for_use_by_hand(pytestconfig: pytest.Config) -> None:
    with pytest.raises(UsageError, match=r"use attnspec\.gate"):
        plan_of(pytestconfig)


def test_a_target_of_any_letters_is_found_again(run: Run) -> None:
    result, _ = run("held", targets=("pfad/größe [x].py:f::g",))
    assert verdicts(result) == {"held": "held"}


def test_nothing_to_run_is_exit_code_2(run: Run) -> None:
    result, events = run()
    assert result.exit_code == 2
    assert [type(event) for event in events] == [RunStarted, RunFinished]


@pytest.mark.usefixtures("stubs")
def test_a_run_becomes_a_record_that_can_be_read(tmp_path: Path) -> None:
    session = Session(Plan(("stub",), clauses=("stub.violated",)), engine="stub_engine:Engine")
    session.run([RecordWriter(tmp_path / "run.jsonl")])
    record = read_record(tmp_path / "run.jsonl")
    assert [outcome.verdict for outcome in record.outcomes] == [Verdict.VIOLATED]
    assert not record.is_interrupted


CODES = [
    ({Verdict.HELD}, False, 0), ({Verdict.HELD, Verdict.INAPPLICABLE, Verdict.NO_CLAIM}, False, 0),
    ({Verdict.EXPECTED}, False, 0), ({Verdict.HELD, Verdict.VIOLATED}, False, 1), ({Verdict.ERRORED}, False, 1),
    ({Verdict.CRASHED}, False, 1), ({Verdict.TIMED_OUT}, False, 1), ({Verdict.HELD, Verdict.UNEXPECTED}, False, 1),
    ({Verdict.INAPPLICABLE, Verdict.NO_CLAIM}, False, 2), ({Verdict.HELD, Verdict.NOT_RUN}, False, 2),
    ({Verdict.VIOLATED, Verdict.NOT_RUN}, False, 1), ({Verdict.VIOLATED}, True, 2), (set(), False, 2),
]


def of_verdict(verdict: Verdict, level: Level = Level.MUST) -> Outcome:
    return Outcome("a", "b", DType.FLOAT32, level, verdict)


@pytest.mark.parametrize(("met", "interrupted", "code"), CODES)
def test_the_exit_code_follows_from_the_verdicts(met: set[Verdict], *, interrupted: bool, code: int) -> None:
    outcomes = [of_verdict(verdict) for verdict in met]
    assert exit_code(outcomes, strict=False, interrupted=interrupted) == code


@pytest.mark.parametrize(("level", "strict", "code"), [
    (Level.SHOULD, False, 0), (Level.SHOULD, True, 1), (Level.MAY, False, 0), (Level.MAY, True, 0)])
def test_advice_gates_only_where_asked(level: Level, *, strict: bool, code: int) -> None:
    assert exit_code([of_verdict(Verdict.VIOLATED, level)], strict=strict, interrupted=False) == code


def test_a_replay_line_leads_back_to_its_item() -> None:
    item = Item("my folder/it's mine.py:attend", "core.shape", "float16")
    command = replay_command(item, "B1;seed=3", Plan((item.target,), lift="torch", implementations=("x y",)))
    assert command.startswith("attnspec replay --implementations 'x y' --lift torch ")
    assert read_replay(f"{item.target} core.shape float16 B1;seed=3") == (item, "B1;seed=3")


def test_a_replay_line_names_the_interpreter_as_it_can_be_typed_here() -> None:
    def line(python: Path) -> str:
        return replay_command(Item("it", "core.shape", "float16"), "B1", Plan(("it",), python=str(python)))

    assert line(Path.cwd() / ".tox" / "old" / "bin" / "python") == (
        "attnspec replay --python .tox/old/bin/python 'it core.shape float16 B1'")
    assert line(Path("/elsewhere/python")).startswith("attnspec replay --python /elsewhere/python ")


@pytest.mark.parametrize(("line", "text"), [
    ("a b", "a line to replay has four parts"),
    ("a b float23 c", "'float23' is not a known dtype. Did you mean 'float32'?")])
def test_a_line_that_is_none_is_explained(line: str, text: str) -> None:
    with pytest.raises(UsageError, match=text.replace("?", "[?]")):
        read_replay(line)


def test_no_file_beside_the_suite_makes_a_source_of_jobs(request: pytest.FixtureRequest) -> None:
    assert object.__new__(Guard).pytest_collect_file(Path(__file__), request.session) is None


def test_who_waits_for_a_compiler_is_told_once_after_a_minute(run: Run) -> None:
    _, events = run("held", "vague", targets=("compiles", "stub"))
    assert [each for each in events if isinstance(each, SubjectCompiles)] == [SubjectCompiles("compiles", 75.0)]
