"""The command `power`: what it puts to whom, what it says at the end, and when it says that power has fallen."""

from __future__ import annotations

import functools
import io
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.nouns import DType, Effort
from attnspec.core.paths import folder as home
from attnspec.core.plan import Plan
from attnspec.faults.catalogue import fault_named
from attnspec.record.codec import to_line
from attnspec.record.events import SUITE, Conviction, Event, RunFinished, RunStarted, SubjectPut
from attnspec.record.read import RunRecord, read_record
from evaluation.baselines.every import EVERY
from evaluation.baselines.gradient_rules import GRADIENT_RULES
from evaluation.baselines.rules import RULES
from evaluation.baselines.serving_rules import SERVING_RULES
from evaluation.cli import main
from evaluation.cli.power_console import PowerConsole, SubjectCounter
from evaluation.power.against import Fall, compare_power
from evaluation.power.jobs import OURS, DiagnosisShare, PowerJobs, with_power
from helpers.commands import Cli
from helpers.places import CHECKOUT
from helpers.records import write_record

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
EQUIVALENT = "scale_root_in_float32"  # listed as giving no wrong answer in float32: put to nothing, so that it is quick
REASON = "everything is computed in float32 already"
ONE = ("--fault", EQUIVALENT, "--dtype", "float32")


@pytest.fixture
def power(evaluation_cli: Cli) -> Cli:
    """`python -m evaluation power` in an empty folder."""
    return functools.partial(evaluation_cli, "power", "--effort", "quick")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, str]:
    """A small measurement by two workers, of one theme of the law, and what the console said."""
    folder = tmp_path_factory.mktemp("power")
    (folder / "law").mkdir()
    for name in ("spec.yaml", "bibliography.yaml", "problems.yaml", "scale.yaml"):
        shutil.copy(home("spec") / name, folder / "law")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stream = io.StringIO()
        patch.setattr("sys.stdout", stream)
        code = main(["power", "--effort", "quick", "--fault", "scale_none", "--fault", "scale_root*", "--sound",
                     "naive", "--dtype", "float32", "--rule", "attnspec", "--rule", "onnx_nodes", "-n", "2",
                     "--diagnosis", "all", "--spec", "law", "--record", "r.jsonl", "--html", "page.html"])
    assert code == 0
    assert "scale_root_in_float32" in (folder / "page.html").read_text(encoding="utf-8")
    return read_record(folder / "r.jsonl"), stream.getvalue()


def test_a_measurement_is_on_record(measured: tuple[RunRecord, str]) -> None:
    record, _ = measured
    puts = {put.subject: put for put in record.puts}
    assert puts.keys() == {"fault/scale_none", "fault/scale_root_in_float32", "sound/naive"}
    wrong, right, same = puts["fault/scale_none"], puts["sound/naive"], puts["fault/scale_root_in_float32"]
    assert [(said.rule, said.convicted, said.cases) for said in wrong.convictions] == [
        (SUITE, True, 1), ("onnx_nodes", True, 1)]
    assert (wrong.named, wrong.stage) == ("scale_none", "scale")
    assert [(said.rule, said.convicted) for said in right.convictions] == [(SUITE, False), ("onnx_nodes", False)]
    assert (same.equivalent, same.convictions) == (REASON, ())
    assert not record.is_interrupted
    assert not record.unfinished


@pytest.mark.nightly
def test_effort_quick_diagnoses_nothing_unless_it_is_asked(power: Cli, tmp_path: Path) -> None:
    words = "--fault", "scale_none", "--dtype", "float32", "--rule", SUITE, "--record", "r.jsonl"
    for more, is_named in ((), False), (("--diagnosis", "all"), True):
        assert power(*words, *more)[0] == 0
        [put] = read_record(tmp_path / "r.jsonl").puts
        assert (put.undiagnosed, bool(put.named)) == (not is_named, is_named)


def test_the_header_tells_of_rules_and_faults(measured: tuple[RunRecord, str]) -> None:
    header = measured[0].header
    assert [rule["name"] for rule in header.rules] == [SUITE, "onnx_nodes"]
    assert [fault["name"] for fault in header.faults] == ["scale_none", "scale_root_in_float32"]
    assert header.faults[0]["story"]
    assert header.rules[1]["sizes_from"] == "onnx/onnx onnx/backend/test/case/node/attention.py at f754691"


def test_the_footer_counts_what_the_suite_made_of_them(measured: tuple[RunRecord, str]) -> None:
    footer = measured[0].footer
    assert footer is not None
    assert dict(footer.counts) == {"convicted": 1, "equivalent": 1, "cleared": 1}


def test_the_console_shows_a_row_a_rule(measured: tuple[RunRecord, str]) -> None:
    lines = measured[1].splitlines()
    assert any(line.split() == ["attnspec", "1", "of", "1", "100", "%", "1,", "1,", "1", "0", "of", "1", "100", "%"]
               for line in lines)
    assert any(line.startswith("ONNX's fixed cases ") for line in lines)
    assert f"  {EQUIVALENT} (float32): {REASON}" in lines
    assert lines[-1].endswith(" s. (exit code 0)")


def said(*, convicted: bool, cases: int = 1, clause: str = "scale.definition") -> Conviction:
    return Conviction(SUITE, convicted=convicted, cases=cases, clause=clause if convicted else "")


def put(name: str, *, convicted: bool, dtype: DType = F32, seed: int = 0, cases: int = 1) -> SubjectPut:
    return SubjectPut(f"fault/{name}", dtype, seed, is_fault=True, stage="scale", equivalent="",
                      convictions=(said(convicted=convicted, cases=cases),))


HEADER = RunStarted("", (), "1", "d" * 64, 0, "quick", False, 1, ("float32",), {"attnspec": "1", "workers": "1"}, (),
                    rules=(OURS,), faults=({"name": "b", "story": "Somebody mixed it up."},))


def written(path: Path, puts: Sequence[SubjectPut], effort: str = "quick") -> Path:
    return write_record(path, replace(HEADER, effort=effort), *puts)


def test_a_fault_that_was_convicted_and_is_no_longer_is_exit_code_1(power: Cli) -> None:
    written(Path("old.jsonl"), [put(EQUIVALENT, convicted=True)])
    code, out, _ = power(*ONE, "--against", "old.jsonl", "-n", "1", "--no-record")
    assert code == 1
    assert (f"{EQUIVALENT} is no longer detected at float32, seed 0 (scale.definition did): "
            f"it is listed as a fault that gives no wrong answer: {REASON}") in out
    assert out.endswith("Power has fallen: 1 fault no longer detected. (exit code 1)\n")


def test_power_that_holds_is_exit_code_0(power: Cli) -> None:
    written(Path("old.jsonl"), [put(EQUIVALENT, convicted=False)])
    code, out, _ = power(*ONE, "--against", "old.jsonl", "-n", "1", "--no-record")
    assert code == 0
    assert "Every fault that was detected before still is." in out


def test_what_became_of_a_fault_is_told() -> None:
    before = [put(name, convicted=True) for name in "abc"]
    lost, unasked = put("b", convicted=False), put("c", convicted=False)
    now = [put("a", convicted=False, cases=15), replace(lost, lost="the worker died", convictions=()),
           replace(unasked, convictions=())]
    fallen = compare_power(now, before, catalogue="abc").fallen
    assert [(each.name, each.because) for each in fallen] == [
        ("a", "no clause detects it within 15 cases"), ("b", "the worker died"), ("c", "the suite was not asked")]


def test_new_and_gone_faults_are_told_and_do_not_count_as_fallen() -> None:
    held = compare_power([put("a", convicted=True), put("new", convicted=True)],
                         [put("a", convicted=True), put("old", convicted=True), put("b", convicted=True)],
                         catalogue="ab")
    assert (dict(held.new), held.gone, held.fell) == ({"new": True}, ("old",), False)


def test_a_new_fault_that_escapes_lowers_the_share() -> None:
    held = compare_power([put("a", convicted=True), put("new", convicted=False)], [put("a", convicted=True)],
                         catalogue="a")
    assert held.falls == (Fall(F32, 1.0, 0.5),)
    assert held.fell


def test_dtypes_and_seeds_that_were_not_measured_now_are_left_out() -> None:
    before = [put("a", convicted=True), put("a", convicted=True, dtype=BF16), put("a", convicted=True, seed=1)]
    assert not compare_power([put("a", convicted=True)], before, catalogue="a").fell


def told(*puts: SubjectPut, code: int = 0, interrupted: bool = False, counts: dict[str, int] | None = None) -> str:
    stream = io.StringIO()
    plan = with_power(Plan((), effort=Effort.QUICK), seeds=(0,), rules=(SUITE,))
    handlers = (PowerConsole(stream, plan, ["record: r.jsonl"]), SubjectCounter(stream))
    events: list[Event] = [HEADER, *puts, RunFinished("", 1.0, counts or {}, code, interrupted)]
    for handler in handlers:
        handler.start()
        for event in events:
            handler.handle(event)
    for handler in reversed(handlers):
        handler.shutdown()
    return stream.getvalue()


def test_a_fault_that_nobody_convicts_is_named_with_its_story() -> None:
    text = told(put("a", convicted=True), put("b", convicted=False, cases=15))
    assert "Not detected: 1 fault\n  b (scale; float32): Somebody mixed it up.\n" in text
    assert "1 of 2  50.0 %" in text
    assert text.endswith("record: r.jsonl\nMeasured in 1 s. (exit code 0)\n")


def test_seeds_at_which_a_fault_escapes_are_counted() -> None:
    text = told(put("b", convicted=True), put("b", convicted=False, seed=1))
    assert "  b (scale; float32 at 1 of 2 seeds): Somebody mixed it up.\n" in text


def test_faults_that_show_only_at_certain_sizes_have_a_column() -> None:
    puts = [put("a", convicted=True), replace(put("b", convicted=False), shows_at="D of 65 and more")]
    lines = [re.split(" {3,}", line) for line in told(*puts).splitlines()]
    head, row = (next(line for line in lines if line[0] == first) for first in ("rule", "attnspec"))
    assert head[:3] == ["rule", "float32", "shows only at certain sizes"]
    assert row[:3] == ["attnspec", "1 of 2  50.0 %", "0 of 1  0 %"]
    assert "certain sizes" not in told(*puts[:1])


def test_a_record_says_of_a_fault_that_it_shows_only_at_certain_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sized = fault_named("size_keys_tail_lost")
    monkeypatch.setattr("attnspec.faults.catalogue.fault_named", lambda _: sized)
    plan = Plan(("fault/scale_none", "sound/naive"), dtypes=(F32,), effort=Effort.QUICK)
    jobs = PowerJobs(with_power(plan, seeds=(0,), rules=()))
    assert [jobs.carry_out(job).shows_at for job in jobs.items()] == [sized.shows_at, ""]


@pytest.mark.family(3)
@pytest.mark.parametrize(("words", "rules"), [
    ((), (SUITE, *RULES)), ((SUITE,), (SUITE,)), (("baselines",), tuple(RULES)),
    (("baselines", SUITE), (SUITE, *RULES)), (("kernelbench", "onnx_nodes"), ("kernelbench", "onnx_nodes")),
    (("gradients", SUITE), (SUITE, *GRADIENT_RULES)), (("serving", SUITE), (SUITE, *SERVING_RULES)),
    (("gradcheck", "gradients", "serving", "baselines", "quantised"), tuple(EVERY))])
def test_the_suite_or_the_other_rules_can_be_measured_alone(
    power: Cli, words: Sequence[str], rules: Sequence[str],
) -> None:
    code, _, _ = power(*ONE, *(word for name in words for word in ("--rule", name)), "--record", "r.jsonl")
    assert code == 0
    assert [rule["name"] for rule in read_record(Path("r.jsonl")).header.rules] == list(rules)


def test_rules_on_gradients_say_nothing_of_who_has_none() -> None:
    plan = Plan(("fault/scale_none", "sound/naive", "fault/grad_in_float32"), dtypes=(F32,), effort=Effort.QUICK)
    jobs = PowerJobs(with_power(plan, seeds=(0,), rules=("onnx_nodes", "assert_close_gradients", "gradcheck")))
    said = {put.subject: [(each.rule, each.convicted) for each in put.convictions]
            for put in map(jobs.carry_out, jobs.items())}
    assert said == {"fault/scale_none": [("onnx_nodes", True)], "sound/naive": [("onnx_nodes", False)],
                    "fault/grad_in_float32": [("onnx_nodes", False), ("assert_close_gradients", True)]}


def test_rules_on_serving_say_nothing_of_who_has_no_lengths() -> None:
    plan = Plan(("fault/scale_none", "sound/naive", "fault/key_lengths_ignored"), dtypes=(F32,), effort=Effort.QUICK)
    jobs = PowerJobs(with_power(plan, seeds=(0,), rules=("onnx_nodes", "onnx_serving", "flash_attention_varlen")))
    said = {put.subject: [(each.rule, each.convicted) for each in put.convictions]
            for put in map(jobs.carry_out, jobs.items())}
    assert said == {"fault/scale_none": [("onnx_nodes", True)],
                    "sound/naive": [("onnx_nodes", False), ("onnx_serving", False)],
                    "fault/key_lengths_ignored": [("onnx_nodes", False), ("onnx_serving", True)]}


def test_ci_puts_faults_to_the_suite_alone() -> None:
    run = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    assert "power --effort quick --rule attnspec" in run


def test_a_wrong_name_is_told() -> None:
    text = told(replace(put("a", convicted=True), named="b", like=("b",)), put("c", convicted=True))
    assert (
        "Detected, but diagnosed as another fault: 2 faults\n  a (float32): b\n  c (float32): no fault explains it\n"
        in text)


def test_an_accused_sound_implementation_is_told() -> None:
    accused = replace(put("a", convicted=True), subject="sound/naive", is_fault=False)
    text = told(put("a", convicted=True), accused, code=1, counts={"accused": 1})
    assert "naive fail at float32, though correct\n" in text
    assert text.endswith("False alarm: a correct implementation fails. (exit code 1)\n")


def test_what_was_lost_is_told_at_once_and_at_the_end() -> None:
    text = told(replace(put("b", convicted=False), lost="the worker died", convictions=()), code=2)
    assert "lost: fault/b float32, seed 0: the worker died\n" in text
    assert text.endswith("Not everything could be tested. (exit code 2)\n")


def test_an_interrupted_measurement_says_so() -> None:
    assert told(code=2, interrupted=True).endswith("Interrupted: the rest was not tested. (exit code 2)\n")


def test_long_lists_are_cut() -> None:
    text = told(*(put(f"f{number:02}", convicted=False) for number in range(23)))
    assert "  and 3 more, in the record\n" in text


MISTAKES: list[tuple[list[str], str]] = [
    (["--fault", "scale_nne"], "'scale_nne' is not a known fault. Did you mean 'scale_none'?"),
    (["--fault", "zzz*"], "'fault/zzz*' matches no subject."),
    (["--sound", "naiv"], "'naiv' is not a known sound formulation. Did you mean 'naive'?"),
    (["--sound", "fault/scale_none"],
     "fault/scale_none is a fault, not a correct implementation. Name it with --fault fault/scale_none."),
    (["--rule", "onnx_node"], "'onnx_node' is not a known rule. Did you mean 'onnx_nodes'?"),
    (["--seeds", "0"], "0 is not in the range 1<=x<=1000000000"),
    (["--against", "none.jsonl"], "none.jsonl: the record cannot be read"),
    (["--against", "empty.jsonl"], "empty.jsonl: this record holds no measurement of power."),
    (["--against", "default.jsonl"],
     "default.jsonl: this was measured at effort default, and effort quick is asked for."),
    (["--against", "whole.jsonl", "--further-dtypes"],
     "whole.jsonl: this was measured without --further-dtypes. Measure without it again."),
    (["--further-dtypes", "--effort", "thorough"],
     "--further-dtypes measures samples of cases, and effort thorough takes none. Use --effort quick or default."),
]


@pytest.mark.parametrize(("words", "text"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_told_before_anything_is_put(power: Cli, words: list[str], text: str) -> None:
    Path("empty.jsonl").write_text(to_line(HEADER) + "\n", encoding="utf-8")
    written(Path("default.jsonl"), [put("a", convicted=True)], effort="default")
    written(Path("whole.jsonl"), [put("a", convicted=True)])
    code, out, err = power(*words, "--no-record")
    assert (code, out) == (2, "")
    assert text in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.family(2)
@pytest.mark.parametrize(("diagnosis", "spared"), [
    (DiagnosisShare.ALL, 0), (DiagnosisShare.IN_TURN, 2), (DiagnosisShare.NONE, 3)])
def test_a_fault_is_diagnosed_at_all_dtypes_at_one_or_at_none(diagnosis: DiagnosisShare, spared: int) -> None:
    plan = Plan(("fault/scale_none",), dtypes=(DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), effort=Effort.QUICK)
    source = PowerJobs(with_power(plan, seeds=(0,), rules=(SUITE,), diagnosis=diagnosis))
    puts = [source.carry_out(job) for job in source.items()]
    assert sum(put.undiagnosed for put in puts) == spared
    assert {put.named for put in puts if not put.undiagnosed} <= {"scale_none"}
