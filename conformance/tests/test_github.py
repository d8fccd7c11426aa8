"""What GitHub Actions is told: the summary of a step, errors at the lines of functions, and a badge of the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import attnspec
import pytest
from attnspec.core.errors import FileLocation, UsageError
from attnspec.core.nouns import DType, Level, Novelty, Verdict
from attnspec.core.paths import append_summary, in_repository
from attnspec.record.outcome import Change, Likeness, Outcome
from attnspec.report.ci_files import MOST_ANNOTATIONS, error_commands, step_summary
from attnspec.report.summary import make_badge
from attnspec.subjects.registry import annotated_at, defined_at
from helpers.commands import Cli
from helpers.outcomes import SUBJECT, evidence, outcome, run
from helpers.places import CHECKOUT, STUBS

HELD, VIOLATED = Verdict.HELD, Verdict.VIOLATED
LIKE = Likeness("late_mask", "mask", "The mask comes late.", "", 3, 3)
SCALELESS = """import numpy as np


def attend(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value
"""


def failure(clause: str, *, like: bool = False, level: Level = Level.MUST) -> Outcome:
    """A failed item, whose cause is known or not."""
    seen = replace(evidence(3.0), like=(LIKE,) if like else ())
    return outcome(VIOLATED, clause, level=level, seen=seen)


def nowhere(_: str) -> None:
    return None


def test_the_summary_has_the_verdict_and_the_likely_cause() -> None:
    text = step_summary([run(failure("core.a", like=True), failure("core.b", like=True), outcome(HELD, "core.c"))])
    assert text == (
        "## attention: lib/attend does not conform\n\n| implementation | verdict | clauses |\n| --- | --- | --- |\n"
        "| `lib/attend` | does not conform | 2 of 3 clauses fail, one cause |\n\n"
        "### the mask comes late (`late_mask`)\n\n`lib/attend`: core.a (float32) and 1 failure more\n\n"
        "1 of 4 entries differ\n\nRepeat it: `attnspec replay 'lib/attend core.a float32 B1;T2'`\n")


def test_the_summary_of_a_run_that_conforms_is_short() -> None:
    assert step_summary([run(outcome(HELD))]).splitlines()[-1] == (
        "| `lib/attend` | conforms | 1 of 1 applicable clause held by lib/attend |")


def changed(clause: str, dtype: DType, convention: str = "") -> Outcome:
    """A known failure that is mended, or a convention that is followed otherwise."""
    says = "convention grouped_heads was repeat, is tile" if convention else "holds now, and is listed as violated"
    novelty = Novelty.CHANGED if convention else Novelty.MENDED
    return replace(outcome(Verdict.UNEXPECTED, clause, dtype=dtype, seen=None),
                   change=Change(novelty, says, HELD, convention))


MENDED = [changed("core.a", DType.FLOAT32), changed("core.b", DType.FLOAT32),
          *(changed("core.c", dtype, "grouped_heads") for dtype in DType)]


def test_what_a_list_of_known_failures_says_otherwise_is_one_error_a_kind() -> None:
    errors = error_commands([run(*MENDED, failure("core.d"))], nowhere)
    assert [each.rpartition("::")[2].partition("%0A")[0] for each in errors] == [
        "core.d (float32)", "core.c (float64) and 3 failures more", "core.a (float32) and 1 failure more"]


def test_the_summary_says_how_the_run_stands_to_its_baseline() -> None:
    known = run(*MENDED, replace(outcome(Verdict.EXPECTED, "core.e")))
    held = replace(known, header=replace(known.header, baseline="/home/me/known.yaml"))
    text = step_summary([held])
    assert "\nHeld against `known.yaml`: 1 known failure as listed, 0 new, 2 mended, 4 changed.\n" in text
    assert text.count("### ") == 2
    assert "### holds now, and is listed as violated\n" in text


def test_causes_beyond_the_tenth_are_counted() -> None:
    text = step_summary([run(*(failure(f"core.c{number:02}") for number in range(MOST_ANNOTATIONS + 2)))])
    assert text.count("### ") == MOST_ANNOTATIONS
    assert text.endswith("And 2 causes more, in the record.\n")


def test_a_record_puts_no_markup_into_the_summary() -> None:
    text = step_summary([run(replace(failure("core.a"), evidence=replace(evidence(3.0), sentence="<b>|![x](y)")))])
    assert "<b>" not in text.replace(r"\<b>", "")


def test_an_annotation_stands_at_the_line_of_the_function() -> None:
    [line] = error_commands([run(failure("core.a", like=True), failure("core.b", like=True))],
                         lambda _: FileLocation("folder/mine.py", 4))
    assert line == ("::error file=folder/mine.py,line=4,title=lib/attend%3A the mask comes late (`late_mask`)::core.a "
                    "(float32) and 1 failure more%0A1 of 4 entries differ%0Arepeat it: attnspec replay 'lib/attend "
                    "core.a float32 B1;T2'")


def test_nothing_of_a_record_ends_an_annotation_early() -> None:
    seen = replace(evidence(3.0), sentence="100 % wrong\r\n::error::forged")
    [line] = error_commands([run(outcome(VIOLATED, "core.a", subject="a,b:c", seen=seen))], nowhere)
    assert "\n" not in line
    assert line.startswith("::error title=a%2Cb%3Ac%3A core.a is violated::")
    assert "100 %25 wrong" in line


def test_at_most_ten_annotations_are_made() -> None:
    lines = error_commands([run(*(failure(f"core.c{number:02}") for number in range(MOST_ANNOTATIONS + 2)))], nowhere)
    assert len(lines) == MOST_ANNOTATIONS == 10


def test_what_does_not_gate_is_no_error() -> None:
    advised = failure("core.a", level=Level.SHOULD)
    assert error_commands([run(advised)], nowhere) == []
    assert len(error_commands([run(advised, strict=True)], nowhere)) == 1


@pytest.mark.parametrize(("outcomes", "message", "colour"), [
    ((outcome(HELD),), "conforms", "brightgreen"),
    ((failure("core.a"),), "does not conform", "red"),
    ((outcome(HELD), outcome(Verdict.EXPECTED, "core.b")), "conforms, but for 1 known failure", "yellow"),
    ((outcome(Verdict.NOT_RUN),), "was not judged", "lightgrey"),
    ((outcome(HELD), outcome(VIOLATED, subject="lib/other")), "1 of 2 implementations conform", "red"),
])
def test_the_badge_is_an_endpoint_of_shields(outcomes: tuple[Outcome, ...], message: str, colour: str) -> None:
    assert make_badge([run(*outcomes)]) == {"schemaVersion": 1, "label": "attention", "message": message,
                                            "color": colour}


def test_the_badge_of_an_interrupted_run_is_grey() -> None:
    assert make_badge([run(outcome(HELD), is_whole=False)])["color"] == "lightgrey"


@pytest.mark.parametrize(("target", "line"), [("mine.py:attend", 4), ("mine:attend", 4), ("mine:made", 10),
                                              ("mine:nothing", 0), ("none.py:attend", 0), ("fault/scale_none", 0)])
def test_a_function_is_found_without_importing_it(target: str, line: int, here: Path) -> None:
    (here / "mine.py").write_text(f"{SCALELESS}\n\nmade = attend\nraise SystemExit\n", encoding="utf-8")
    place = defined_at(target)
    assert place == (FileLocation(str(here / "mine.py"), line) if line else None)


def test_a_registered_subject_is_defined_in_its_adapter() -> None:
    place = defined_at("numpy/attention")
    assert place is not None
    file = Path(place.file)
    assert file.is_relative_to(CHECKOUT / "implementations" / "numpy")
    assert file.read_text(encoding="utf-8").splitlines()[place.line - 1].startswith("def attention(")


def test_a_file_that_is_no_python_is_nobodys_place(here: Path) -> None:
    (here / "mine.py").write_text("def attend(:\n", encoding="utf-8")
    assert defined_at("mine.py:attend") is None


def test_annotations_name_files_from_the_checkout(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = FileLocation(str(here.resolve() / "folder" / "mine.py"), 4)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    assert in_repository(inside) == FileLocation("folder/mine.py", 4)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here / "elsewhere"))
    assert in_repository(inside) == FileLocation("folder/mine.py", 4)  # from where the program runs
    assert in_repository(FileLocation("/usr/lib/elsewhere.py", 4)) is None  # GitHub would show nothing there


def test_a_written_adapter_is_annotated_at_the_function_that_it_wraps(
    here: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (here / "theirs_own.py").write_text(f"import math\n\n{SCALELESS}", encoding="utf-8")
    folder = here / "implementations" / "theirs"
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text(
        "library: theirs\nsubjects:\n- {id: own, title: own, function: 'own:adapted', dtypes: [float32]}\n", "utf-8")
    (folder / "own.py").write_text(
        "import numpy as np\nfrom theirs_own import attend\n\ndef adapted(query, key, value):\n"
        "    return attend(query, key, value)\n", encoding="utf-8")
    wrapped = annotated_at("theirs_own.py:attend")
    assert wrapped is not None
    assert annotated_at("theirs/own", [here / "implementations"]) == wrapped
    (here / "theirs_own.py").unlink()
    assert annotated_at("theirs/own", [here / "implementations"]) == FileLocation("implementations/theirs/own.py", 4)


def test_the_summary_is_added_to_what_is_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "summary.md").write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    append_summary("after\n")
    assert (here / "summary.md").read_text(encoding="utf-8") == "before\nafter\n\n"


def test_a_summary_that_cannot_be_written_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here))
    with pytest.raises(UsageError, match=r"the summary of the step \(\$GITHUB_STEP_SUMMARY\) .* cannot be written"):
        append_summary("text")


CHECK = ("check", "mine.py:attend", "--clause", "attention.definition", "--dtype", "float32", "--effort", "glance",
         "-n", "1", "--no-record")


def test_check_tells_github(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "mine.py").write_text(SCALELESS, encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, _ = cli(*CHECK, "--badge", "badge.json")
    assert code == 1
    assert [line.partition(",title=")[0] for line in out.splitlines() if line.startswith("::")] == [
        "::error file=mine.py,line=4"]
    assert "mine.py:attend does not conform" in (here / "summary.md").read_text(encoding="utf-8")
    assert json.loads((here / "badge.json").read_text(encoding="utf-8"))["color"] == "red"
    assert "\nbadge: badge.json\n" in out


def test_elsewhere_nothing_is_annotated(cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "mine.py").write_text(SCALELESS, encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(here / "summary.md"))  # as another CI server may do
    assert "::error" not in cli(*CHECK)[1]
    assert (here / "summary.md").is_file()


def pytest_run(folder: Path, test: str, *options: str) -> str:
    """What pytest prints of a file of tests, run as anybody runs it on GitHub."""
    (folder / "mine.py").write_text(SCALELESS, encoding="utf-8")
    (folder / "test_gate.py").write_text(test, encoding="utf-8")
    paths = [str(STUBS), str(Path(attnspec.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                   "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    words = ("-p", "no:cacheprovider", "-p", "xdist.plugin", "-p", "attnspec.pytest_plugin", *options)
    return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=folder, env=environment, text=True,
                          capture_output=True, check=False).stdout


GATE = """from attnspec import gate
test_attention = gate("mine.py:attend", clauses=["attention.definition"], dtypes=["float32"], effort="glance")
"""


@pytest.mark.family(1)
@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_gates_tell_github(options: tuple[str, ...], tmp_path: Path) -> None:
    out = pytest_run(tmp_path, GATE, *options)
    assert "\n::error file=mine.py,line=4,title=mine.py%3Aattend%3A attention.definition is violated::" in out
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").count("mine.py:attend does not conform") == 1


@pytest.mark.family(1)
@pytest.mark.parametrize("strict", [False, True])
def test_advice_is_an_error_of_a_strict_gate_alone(strict: bool, tmp_path: Path) -> None:
    out = pytest_run(tmp_path, f"""from attnspec import gate
test_stub = gate("stub", clauses=["stub.advised"], strict={strict}, engine="stub_engine:Engine")
""")
    assert ("::error title=stub%3A stub.advised is violated::" in out) is strict


def test_a_pytest_run_without_gates_writes_no_summary(tmp_path: Path) -> None:
    assert "1 passed" in pytest_run(tmp_path, "def test_nothing(): pass")
    assert not (tmp_path / "summary.md").exists()


@pytest.mark.nightly
def test_a_summary_that_cannot_be_written_fails_no_gate(tmp_path: Path) -> None:
    (tmp_path / "summary.md").mkdir()
    out = pytest_run(tmp_path, GATE)
    assert "attnspec: the summary of the step ($GITHUB_STEP_SUMMARY)" in out
    assert "INTERNALERROR" not in out


def test_dtypes_of_one_cause_are_one_error() -> None:
    both = (replace(failure("core.a", like=True), dtype=dtype) for dtype in (DType.FLOAT32, DType.FLOAT16))
    assert SUBJECT in (lines := error_commands([run(*both)], nowhere))[0]
    assert len(lines) == 1
