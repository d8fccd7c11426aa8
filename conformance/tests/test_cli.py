"""The command: what it prints, where it writes, and its exit codes. Runs are held before stubs/stub_engine.py."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from attnspec.cli import check as check_command
from attnspec.cli import lint, outputs
from attnspec.cli.options import available_cpus, judgeable_subjects
from attnspec.cli.outputs import LiveProgress, PlainProgress
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.codec import record_schema
from attnspec.record.events import ItemFinished, ItemStarted, RunFinished, RunStarted
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.runner.session import Session
from attnspec.subjects import registry
from helpers.commands import Cli


@pytest.fixture
def stub_engine(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  (on the path)
    """Commands judge before the stub court."""
    monkeypatch.setattr(check_command, "Session", functools.partial(Session, engine="stub_engine:Engine"))


@pytest.fixture
def check(cli: Cli, stub_engine: None) -> Cli:  # noqa: ARG001  (the engine)
    """`attnspec check stub:it` before the stub court, at the clauses named."""
    def run(clauses: str, *words: str) -> tuple[int, str, str]:
        selected = [word for name in clauses.split() for word in ("--clause", f"stub.{name}")]
        return cli("check", "stub:it", "-n", "1", *selected, *words)

    return run


def test_a_conforming_subject_is_exit_code_0(check: Cli) -> None:
    code, out, err = check("held listed")
    assert (code, err) == (0, "")
    assert out.startswith("attnspec 0.1.0, spec 0 (dddddddd): 2 items of 1 subject, float32; effort default, seed 0, ")
    assert "\nConforms, but for 1 known failure.\nstub:it: 1 of 2 applicable items held, 1 expected\n" in out
    assert out.endswith("Conforms, but for 1 known failure. (exit code 0)\n")
    assert check("held")[1].endswith("Conforms. (exit code 0)\n")


def test_a_violated_clause_is_exit_code_1_and_is_told_in_full(check: Cli) -> None:
    code, out, _ = check("held violated")
    assert code == 1
    assert """
stub.violated (spec/stub.yaml:2) is violated
  says: The stub's clause called violated holds.
  by: stub:it, float32
  case: B=1 H=1 T=1 S=2 D=1 Dv=1
  seen: 1 of 4 entries differ
  again: attnspec replay 'stub:it stub.violated float32 B1,""" in out
    assert out.endswith("\nDoes not conform: 1 failure, which no known fault explains. (exit code 1)\n")


def test_dtypes_that_fare_alike_are_told_together(check: Cli) -> None:
    _, out, _ = check("violated", "--dtype", "float32", "--dtype", "float16")
    assert out.count("\nstub.violated (spec/stub.yaml:2) is violated") == 1
    assert "\n  by: stub:it, float32 (also float16)\n" in out


def test_advice_is_marked_and_gates_only_when_strict(check: Cli) -> None:
    code, out, _ = check("held advised", "-v")
    assert code == 0
    assert "stub.advised (spec/stub.yaml:3) is a recommendation that is not followed [should]" in out
    assert check("held advised", "--strict")[0] == 1


def test_advice_that_is_not_followed_is_one_line_and_no_violation(check: Cli) -> None:
    _, out, _ = check("held advised")
    assert "\nConforms.\nstub:it: 1 of 2 applicable items held, 1 not as recommended\n" in out
    assert "\n1 recommendation (should) is not followed: stub.advised (not counted; -v shows it)\n" in out
    assert "violated" not in out


def test_what_was_not_judged_is_listed_with_its_reasons(check: Cli) -> None:
    code, out, _ = check("held lacking vague broken", "-v")
    assert code == 2
    assert "1 not run: stub: its import fails. (stub:it)" in out
    assert "1 no claim: every case overflowed (stub.vague)" in out
    assert "1 inapplicable: takes no `mask` (stub.lacking)" in out
    assert out.endswith("Not everything was run. (exit code 2)\n")


def test_what_was_not_judged_is_otherwise_a_line_each(check: Cli) -> None:
    code, out, _ = check("held lacking vague broken")
    assert code == 2
    assert "1 not run: stub: its import fails. (stub:it)" in out
    assert "\n1 clause could not be decided: every case overflowed (-v lists it)\n" in out
    assert "\n1 clause does not apply: takes no `mask` (-v lists it)\n" in out
    assert out.endswith("Not everything was run. (exit code 2)\n")


@pytest.mark.usefixtures("check")
def test_an_audit_judges_whatever_can_be_judged(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_command, "judgeable_subjects", lambda *_: ("stub:a", "stub:b"))
    code, out, _ = cli("audit", "--clause", "stub.held", "--clause", "stub.violated", "--json", "--no-record")
    assert code == 1
    assert json.loads(out.splitlines()[0])["planned"] == {"stub:a": 2, "stub:b": 2}


MANIFEST = """
library: Nowhere
requires: nowhere_to_be_found
install: pip install nowhere
subjects:
  - {id: attend, title: Nothing, function: "adapter:attend"}
"""


def test_what_is_not_installed_is_named_and_audits_go_without_it(cli: Cli) -> None:
    Path("mine/nowhere").mkdir(parents=True)
    Path("mine/nowhere/manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    Path("mine/nowhere/adapter.py").write_text("def attend(query, key, value): ...", encoding="utf-8")
    code, _, err = cli("check", "nowhere/attend", "--implementations", "mine")
    assert code == 2
    assert "nowhere_to_be_found is not installed. Install it: pip install nowhere" in err
    assert "nowhere_to_be_found is not installed" in cli("list", "--implementations", "mine")[1]
    assert "nowhere/attend" not in judgeable_subjects(("mine",))
    assert "numpy/msa" in judgeable_subjects(("mine",))


def test_an_audit_of_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered_subjects",
                        lambda _: {"a/b": SimpleNamespace(why_missing="a is not installed.")})
    with pytest.raises(TargetError, match=r"nothing registered can be judged here\. a is not installed"):
        judgeable_subjects(())
    missing = {name: SimpleNamespace(why_missing=f"{name} is not installed.") for name in ("a", "b")}
    monkeypatch.setattr(registry, "registered_subjects", lambda _: missing)
    with pytest.raises(TargetError, match=r"judged here\.\n  a is not installed\.\n  b is not installed\."):
        judgeable_subjects(())


def test_nothing_executed_is_exit_code_2(check: Cli) -> None:
    code, out, _ = check("lacking")
    assert code == 2
    assert out.endswith("Nothing was executed: takes no `mask`. (exit code 2)\n")


def test_what_cannot_be_had_is_told_in_the_verdict_once(check: Cli) -> None:
    code, out, _ = check("broken", "--dtype", "float32", "--dtype", "float16", "--no-record")
    assert code == 2
    assert out.partition("\n\n")[2] == ("Nothing was executed: stub: its import fails.\nstub:it: 2 not run\n"
                                        "Nothing was executed: stub: its import fails. (exit code 2)\n")


@pytest.mark.workers
def test_a_defect_of_ours_is_owned_up_to_once(check: Cli) -> None:
    code, _, err = check("held defect", "--dtype", "float32", "--dtype", "float16")
    assert code == 2
    assert err.count("ZeroDivisionError: a defect of attnspec itself") == 1
    assert "and 1 time more" in err
    assert "a bug in attnspec, not in your implementation" in err


def test_a_record_is_kept_and_named(check: Cli) -> None:
    _, out, _ = check("held")
    [record] = Path("reports/run").glob("*.jsonl")
    assert f"record: {record}\npage: attnspec report {record}\n" in out
    assert read_record(record).header.command[0] == "attnspec"


def test_two_runs_in_one_second_keep_two_records(check: Cli) -> None:
    check("held")
    check("held")
    assert len(list(Path("reports/run").glob("*.jsonl"))) == 2


def test_record_and_page_go_where_they_are_told_to(check: Cli) -> None:
    _, out, _ = check("violated", "--record", "deep/run.jsonl", "--html", "deep/page.html")
    assert "record: deep/run.jsonl\npage: deep/page.html" in out
    assert "stub.violated" in Path("deep/page.html").read_text(encoding="utf-8")


def test_a_page_needs_no_record_to_be_kept(check: Cli) -> None:
    check("violated", "--no-record", "--html", "page.html")
    assert "stub.violated" in Path("page.html").read_text(encoding="utf-8")
    assert not Path("reports").exists()


def test_json_is_the_record_on_standard_output(check: Cli) -> None:
    _, out, err = check("held violated", "--json", "--no-record")
    validator = jsonschema.Draft202012Validator(record_schema())
    events = [json.loads(line) for line in out.splitlines()]
    assert all(validator.is_valid(event) for event in events)
    assert (events[0]["event"], events[-1]["event"], events[-1]["exit_code"]) == ("run_started", "run_finished", 1)
    assert "Does not conform" in err


@pytest.mark.usefixtures("stub_engine")
def test_a_replay_judges_one_case(cli: Cli) -> None:
    code, out, _ = cli("replay", "stub:it stub.violated float32 B1;seed=9")
    assert code == 1
    assert "note: replayed B1;seed=9" in out


@pytest.mark.usefixtures("stub_engine")
def test_a_replay_shows_everything_also_where_that_is_asked_for(cli: Cli) -> None:
    line = "stub:it stub.violated float32 B1;seed=9"
    assert cli("replay", line, "-v") == cli("replay", "--verbose", line) == cli("replay", line)


def test_a_page_is_made_from_several_records(check: Cli, cli: Cli) -> None:
    check("held", "--record", "a.jsonl")
    check("violated", "--record", "b.jsonl")
    Path("c.jsonl").write_text(Path("a.jsonl").read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    code, out, _ = cli("report", "a.jsonl", "b.jsonl", "c.jsonl")
    assert (code, out) == (0, "c.jsonl: the run was interrupted; 0 of 1 items are known\npage: a.html\n")
    assert Path("a.html").is_file()


MISTAKES: list[tuple[list[str], str]] = [
    (["chek"], "'chek' is not a command. Did you mean 'check'?"),
    (["check"], "Missing argument 'TARGET...'"),
    (["check", "--efort", "quick", "a:b"], "No such option '--efort'. .*'--effort'"),
    (["check", "--effort", "quik", "a:b"], "'quik' is not a known effort. Did you mean 'quick'?"),
    (["check", "--effort", "fast", "a:b"], "'fast' is not a known effort. Known: glance, quick, default, thorough."),
    (["check", "--dtype", "float23", "a:b"], "'float23' is not a known dtype. Did you mean 'float32'?"),
    (["check", "--lift", "jay", "a:b"], "'jay' is not a known lift. Did you mean 'jax'?"),
    (["check", "-n", "0", "a:b"], "0 is not in the range 1<=x<=1024"),
    (["check", "-n", "many", "a:b"], "'many' is not a valid integer"),
    (["check", "--deadline", "0", "a:b"], "0.0 is not in the range 0<x<=1000000.0"),
    (["check", "--seed", "x", "a:b"], "'x' is not a valid integer"),
    (["check", "numpy/mas"], "'numpy/mas' is not a known subject. Did you mean 'numpy/msa'?"),
    (["check", "--clause", "causal.no_lookahed", "a:b"], "not a known clause. Did you mean 'causal.no_lookahead'?"),
    (["check", "--profile", "cor", "numpy/msa"], "'cor' is not a known profile. Did you mean 'core'?"),
    (["check", "--implementations", "nowhere", "numpy/msa"], "nowhere: there is no such folder of implementations"),
    (["check", "--spec", "nowhere", "a:b"], "nowhere: there is no such folder"),
    (["check", "--record", "x", "--no-record", "a:b"], "--record and --no-record contradict each other"),
    (["check", "--record", "x.jsonl.gz", "a:b"], "cannot be compressed. Name it x.jsonl; `attnspec combine` writes"),
    (["check", "--record", "file/x", "a:b"], "the record file/x cannot be written"),
    (["check", "--html", "file/x", "a:b"], "the page file/x cannot be written"),
    (["audit", "--without", "numpi/*"], r"'numpi/\*' matches no subject that would be judged here"),
    (["audit", "--library", "numpi"], "'numpi' is not a known library. Did you mean 'numpy'?"),
    (["list", "subject"], "'subject' is not a known thing to list. Did you mean 'subjects'?"),
    (["explain", "causal.no_lookahed"], "neither a clause nor a word nor a fault. Did you mean 'causal.no_lookahead'?"),
    (["explain", "mask.*"], r"neither a clause nor a word nor a fault. Did you mean 'masking\.\*'?"),
    (["explain", "softmax.*"], r"neither a clause nor a word nor a fault. Did you mean 'attention\.\*'?"),
    (["check", "--clause", "softmax.*", "a:b"], r"is not a known clause. Did you mean 'attention\.\*'?"),
    (["explain"], "Missing argument 'NAME'"),
    (["replay", "a b"], "a line to replay has four parts"),
    (["report"], "Missing argument 'RECORD...'"),
    (["report", "none.jsonl"], "none.jsonl: the record cannot be read"),
    (["report", "file"], "file: the record holds no whole line"),
    (["smoke", "torch/sdp"], "'torch/sdp' is not a known subject. Did you mean 'torch/sdpa'?"),
    (["lint", "--spec", "nowhere"], "nowhere: there is no such folder"),
]


@pytest.mark.parametrize(("words", "text"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_told_without_a_traceback(cli: Cli, words: list[str], text: str) -> None:
    Path("file").touch()
    code, out, err = cli(*words)
    assert code == 2
    assert re.search(text.replace("?", "[?]"), (out if words[0] == "lint" else err).replace("\n", " ")), err
    assert "Traceback" not in err


def test_a_bug_of_ours_crashes_loudly_and_is_not_a_verdict(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(check_command, "checked_plan", fail)
    code, _, err = cli("check", "a:b")
    assert code == 2
    assert "ZeroDivisionError: ours" in err
    assert "Please report them" in err


def test_lists_name_what_there_is(cli: Cli) -> None:
    assert "numpy/msa" in cli("list")[1]
    assert re.search(r"^causal.no_lookahead +must +causal +With", cli("list", "clauses")[1], re.MULTILINE)
    assert re.search(r"^core +\d+ +attention without", cli("list", "profiles")[1], re.MULTILINE)
    words = cli("list", "words")[1]
    assert "replace_after" in words
    assert re.search(r"^split +transform +along: batch\|heads\|queries +Split the problem", words, re.MULTILINE)
    assert re.search(r"^agree +relation .*within: exact\|rounding\|reordering, \[rows_through\]", words, re.MULTILINE)
    assert "scale_none" in cli("list", "faults")[1]


@pytest.mark.parametrize("what", ["subjects", "clauses", "profiles", "faults", "words"])
def test_lists_are_json_on_request(cli: Cli, what: str) -> None:
    rows = json.loads(cli("list", what, "--json")[1])
    assert rows
    assert all(isinstance(value, str) for row in rows for value in row.values())


def test_a_clause_is_explained_with_its_sources_and_its_yaml(cli: Cli) -> None:
    _, out, _ = cli("explain", "causal.no_lookahead")
    assert re.search(r"^causal\.no_lookahead  \(must, profile causal\)  spec/causal\.yaml:\d+$", out, re.MULTILINE)
    for text in (r"formula: A_{ij} = 0 \quad (j > i)", "Attention Is All You Need",
                 "“使其只能关注到之前已经生成的 token 上”\n    in English: “so that it can attend only to",
                 "https://arxiv.org/abs/1706.03762", "faults that violate it: ",
                 "  - id: causal.no_lookahead\n", "then:"):
        assert text in out
    assert out.count("- id:") == 1
    assert out.index("https://arxiv.org/abs/1706.03762") < out.index("in English: ")


def test_a_pattern_explains_clauses_one_after_another_or_else_faults(cli: Cli) -> None:
    _, out, _ = cli("explain", "drift.*")
    heads = [line.partition("  ")[0] for line in out.splitlines() if re.search(r"  \((must|should|may), profile", line)]
    assert len(heads) > 1
    assert all(head.startswith("drift.") for head in heads)
    assert [each["id"] for each in json.loads(cli("explain", "drift.*", "--json")[1])] == heads
    assert cli("explain", "drift")[1] == out  # a theme is all of its clauses
    stories = cli("explain", "mask_inverted*")[1]
    assert "mask_inverted  (a fault" in stories
    assert "mask_inverted_in_place  (a fault" in stories


def test_a_clause_is_explained_as_json_on_request(cli: Cli) -> None:
    assert json.loads(cli("explain", "causal.no_lookahead", "--json")[1])["theme"] == "causal"


def test_a_fault_tells_its_story(cli: Cli) -> None:
    _, out, _ = cli("explain", "scale_none")
    assert "The division by sqrt(d_k) is forgotten." in out
    assert "clauses that name it: " in out


def test_smoke_tells_a_working_adapter(cli: Cli) -> None:
    code, out, _ = cli("smoke", "numpy/attention")
    assert code == 0
    assert out.count("ok    numpy/attention: ") == 5


SMOKED = {
    "wrong": ("return query * float('nan')", "FAIL  .*the output holds NaN or infinities"),
    "dies": ("import os; os.abort()", r"FAIL  .*the process died while the implementation ran \(SIGABRT\)"),
    "exits": ("import os; os._exit(3)", r"FAIL  .*the process died while the implementation ran \(exit code 3\)"),
    "hangs": ("import time; time.sleep(60)", "FAIL  .*the implementation had not returned after 1 s"),
    "missing": ("pass\nraise ImportError('not here')", "FAIL  .*not here"),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly) if name in {"hangs", "exits"} else name for name in SMOKED])
def test_smoke_tells_a_broken_one(cli: Cli, name: str) -> None:
    body, text = SMOKED[name]
    Path("mine.py").write_text(f"def attend(query, key, value):\n    {body}\n", encoding="utf-8")
    code, out, _ = cli("smoke", "mine.py:attend", "--deadline", "1" if name == "hangs" else "60")
    assert code == 2
    assert re.search(text, out)


def test_the_schemas_are_printed(cli: Cli) -> None:
    assert json.loads(cli("schema")[1])["$defs"]["clause"]
    assert json.loads(cli("schema", "--record")[1]) == record_schema()


def test_generated_files_are_fresh_and_the_law_is_in_order(cli: Cli) -> None:
    assert cli("schema", "--check")[0] == 0
    assert cli("lint")[1] == "No problem found.\n"


def test_the_module_runs_like_the_script(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "attnspec", "--version"], cwd=tmp_path, capture_output=True, text=True,
                          check=True)
    assert done.stdout == "attnspec, version 0.1.0\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m attnspec list clauses | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_at_most_eight_workers_are_started_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    assert available_cpus() == 8


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


HEADER = RunStarted("", (), "1", "d" * 64, 0, "quick", False, 3, ("float32",), {"attnspec": "1", "workers": "2"}, (),
                    {"a": 2, "b": 1})


def finished(subject: str, clause: str, verdict: Verdict) -> ItemFinished:
    return ItemFinished(Outcome(subject, clause, DType.FLOAT32, Level.MUST, verdict, "because"))


def test_a_terminal_gets_bars_that_are_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "SECONDS_BETWEEN_DRAWINGS", -1)
    screen = Terminal()
    handler = outputs.make_progress(screen, {"TERM": "xterm"})
    assert isinstance(handler, LiveProgress)
    handler.start()
    for event in (HEADER, ItemStarted("a", "x", "float32"), finished("a", "x", Verdict.VIOLATED),
                  finished("a", "y", Verdict.HELD), finished("b", "x", Verdict.HELD), RunFinished("", 1, {}, 1)):
        handler.handle(event)
    handler.shutdown()
    drawn = re.sub(r"\x1b\[\d*m|\x1b\[22m", "", screen.getvalue())
    assert "running: x (a, float32)" in drawn
    assert f"{'━' * 12}{'─' * 12}    1/2    1 violated" in drawn
    assert drawn.count("because") == 1  # the first failure, when it is known; all of them at the end
    # what is left standing when everything rewritten is gone: no bar
    assert "━" not in re.sub(r"(?s)[^\x1b]*\x1b\[\d+F\x1b\[J", "", drawn)


def test_a_narrow_terminal_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    LiveProgress(screen).handle(HEADER)
    block = re.sub(r"\x1b\[\d*m", "", screen.getvalue()).splitlines()[1:]
    assert block
    assert all(len(line) < 40 for line in block)


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1", "TERM": "xterm"}])
def test_a_plain_terminal_gets_no_colour(environment: dict[str, str]) -> None:
    screen = Terminal()
    handler = outputs.make_progress(screen, environment)
    handler.handle(HEADER)
    handler.handle(finished("a", "x", Verdict.VIOLATED))
    assert "\x1b[31m" not in screen.getvalue()


def test_a_long_audit_shows_the_subjects_at_work() -> None:
    screen = Terminal()
    live = LiveProgress(screen)
    live.handle(replace(HEADER, planned={f"s{number}": 2 for number in range(12)}))
    live.handle(finished("s11", "x", Verdict.HELD))
    live.shutdown()
    assert "… and 4 more subjects" in screen.getvalue()


def test_an_interruption_outside_a_run_is_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check_command, "checked_plan", interrupt)
    assert cli("check", "a:b") == (2, "", "\nattnspec: interrupted\n")


def test_generated_files_are_written_and_stale_ones_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "folder", Path)
    Path("spec").mkdir()
    Path("reports/page").mkdir(parents=True)
    code, _, err = cli("schema", "--check")
    assert code == 2
    assert "spec/schema.json: is out of date. Write it again: attnspec schema --write." in err
    assert cli("schema", "--write")[1] == "wrote spec/schema.json\nwrote reports/page/record.schema.json\n"
    assert cli("schema", "--check")[0] == 0


def test_lint_names_a_deviation_from_a_clause_that_is_none(cli: Cli) -> None:
    Path("mine/nowhere").mkdir(parents=True)
    deviation = ("    deviations: [{clause: causal.no_lookahed, verdict: violated, reason: so it is, "
                 "issue: 'https://example.org/1', until: '2.0'}]")
    listed = MANIFEST.replace('{id: attend, title: Nothing, function: "adapter:attend"}',
                              f"id: attend\n    title: Nothing\n    function: adapter:attend\n{deviation}")
    Path("mine/nowhere/manifest.yaml").write_text(listed, encoding="utf-8")
    Path("mine/nowhere/adapter.py").write_text("def attend(query, key, value): ...", encoding="utf-8")
    code, out, _ = cli("lint", "--implementations", "mine")
    assert code == 2
    assert "'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_lookahead'?" in out


def test_a_pipe_gets_plain_lines() -> None:
    pipe = io.StringIO()
    handler = outputs.make_progress(pipe, {"TERM": "xterm"})
    assert type(handler) is PlainProgress
    for event in (HEADER, finished("b", "x", Verdict.HELD)):
        handler.handle(event)
    assert pipe.getvalue().splitlines()[1:] == ["b: done, 1 of 2 subjects"]
    assert "\x1b" not in pipe.getvalue()


@pytest.mark.parametrize(("target", "said"), [
    ("fault/scale_nne", "'scale_nne' is not a known fault. Did you mean 'scale_none'?"),
    ("sound/naiv", "'naiv' is not a known sound formulation. Did you mean 'naive'?")])
def test_a_mistyped_fault_or_sound_formulation_is_told_with_the_nearest(cli: Cli, target: str, said: str) -> None:
    code, _, err = cli("check", target)
    assert code == 2
    assert said in err


@pytest.mark.nightly
def test_a_fault_is_judged_by_its_id_as_any_subject(cli: Cli) -> None:
    code, out, _ = cli("check", "fault/scale_none", "--clause", "scale.read_out", "--dtype", "float32", "-n", "1")
    assert code == 1
    assert "scale.read_out (spec/scale.yaml:" in out
