"""The matrix: a judging environment is held against what is known to fail there, and is red where that changes."""

from __future__ import annotations

import configparser
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attnspec.cli import main
from attnspec.cli.check import check
from attnspec.core.paths import folder
from attnspec.subjects.baseline import read_entries
from click.testing import CliRunner
from helpers.places import CHECKOUT

BASELINES = sorted((CHECKOUT / "reports" / "baselines").glob("*.yaml"))
RELEASES = ("numpy126", "numpy2", "torch213", "jax04", "jax06", "jax010")

# the adapter of NumPy, with a flaw that is known: a scale of zero or below is taken for its absolute value
SCALED = "1 / math.sqrt(query.shape[-1]) if scale is None else scale"
FLAW = SCALED.replace("else scale", "else abs(scale)")
MANIFEST = """
library: Kernel
subjects:
  - id: attention
    title: A kernel with a flaw that is known
    function: attention:attention
    claims: [scale, causal]
    conventions: {hidden_row: zeros, causal_alignment: top_left, mask_with_causal: both, grouped_heads: repeat}
"""
FINDINGS = """
findings:
  - id: scale_is_positive
    says: A scale below zero is taken for its absolute value.
    subjects: [attention]
    clauses: [scale.*]
    script: shows.py
    documented: "no"
"""
Judge = Callable[..., tuple[int, str]]


def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(CHECKOUT / "tox.ini", encoding="utf-8")
    return parser


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The exit code and the output of a check of the adapter with these changes, held against known.yaml."""
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "libraries" / "kernel"
    library.mkdir(parents=True)
    shutil.copy(folder("implementations") / "numpy" / "attention.py", library)
    (library / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    (library / "findings.yaml").write_text(FINDINGS, encoding="utf-8")
    (library / "shows.py").write_text("raise SystemExit(1)", encoding="utf-8")
    adapter = library / "attention.py"
    whole = adapter.read_text(encoding="utf-8")
    assert SCALED in whole
    adapter.write_text(whole.replace(SCALED, FLAW), encoding="utf-8")

    def run(before: str = "", after: str = "", *options: str) -> tuple[int, str]:
        text = adapter.read_text(encoding="utf-8")
        assert before in text
        adapter.write_text(text.replace(before, after) if before else text, encoding="utf-8")
        clauses = ("scale.explicit", "causal.no_lookahead", "attention.shape")
        arguments = ["kernel/attention", "--implementations", "libraries", "--dtype", "float32", "--effort", "quick",
                     "-n", "1", "--no-record", "--baseline", "known.yaml", *options,
                     *(word for clause in clauses for word in ("--clause", clause))]
        done = CliRunner().invoke(check, arguments, standalone_mode=False)
        assert done.exception is None
        code: Any = done.return_value
        return code, done.output

    return run


@pytest.mark.nightly
def test_the_matrix_is_green_where_nothing_is_new(judge: Judge) -> None:
    code, output = judge()
    assert code == 1  # the run that writes the list
    assert "baseline: wrote known.yaml with 1 known failure. Commit it" in output
    [entry] = read_entries(Path("known.yaml"))
    assert (entry.how, entry.finding) == ("agrees_with_definition", "kernel/scale_is_positive")
    assert "scale=-" in entry.case
    assert not entry.reason  # the finding tells it

    code, output = judge()
    assert code == 0
    assert ("Held against known.yaml: 1 known failure as listed (1 kernel/scale_is_positive), nothing new.\n"
            ) in output
    assert output.endswith("Conforms, but for 1 known failure. (exit code 0)\n")


@pytest.mark.nightly
def test_a_fault_put_into_an_adapter_turns_it_red(judge: Judge) -> None:
    judge()
    code, output = judge("(None, 0))", "(None, 1))")  # the causal mask reaches one key too far
    assert code == 1
    assert "Held against known.yaml: 1 known failure as listed (1 kernel/scale_is_positive).\n" in output
    assert ("  regression: kernel/attention causal.no_lookahead (float32) is violated (agree); it did not fail when "
            "the list was made\n") in output
    assert "  If a change is intended, run with --update-baseline and review" in output
    assert "Does not conform. Looks like one bug: " in output


@pytest.mark.nightly
def test_a_mended_failure_is_told_and_stops_nobody(judge: Judge) -> None:
    judge()
    code, output = judge(FLAW, SCALED)
    assert code == 0
    assert "Held against known.yaml: no known failure fails as listed.\n" in output
    assert ("  mended: kernel/attention scale.explicit (float32) holds now, and is listed as violated "
            "(agrees_with_definition)\n") in output
    assert output.endswith("Conforms; the only listed failure is mended: renew the list (--update-baseline). "
                           "(exit code 0)\n")

    judge("", "", "--update-baseline")
    assert read_entries(Path("known.yaml")) == ()
    assert judge()[0] == 0


@pytest.mark.nightly
def test_a_failure_that_changed_turns_it_red(judge: Judge) -> None:
    judge()
    code, output = judge("abs(scale)", "math.sqrt(scale)")
    assert code == 1
    assert ("  changed: kernel/attention scale.explicit (float32) is errored (ValueError: math domain error) now, and "
            "is listed as violated (agrees_with_definition)\n") in output
    assert "Does not conform" in output


@pytest.mark.nightly
def test_what_stays_keeps_its_finding_and_what_was_not_judged_stays(judge: Judge) -> None:
    path = Path("known.yaml")
    judge()
    again = path.read_text(encoding="utf-8")
    other = "- {subject: other.py:attend, clause: attention.shape, dtype: float32, verdict: violated, reason: so}\n"
    path.write_text(again.replace("known:\n", f"known:\n{other}"), encoding="utf-8")
    twin = FINDINGS.partition("findings:\n")[2].replace("scale_is_positive", "something_else")
    Path("libraries/kernel/findings.yaml").write_text(FINDINGS + twin, encoding="utf-8")
    judge("", "", "--update-baseline")  # two findings speak of it now; the entry keeps its own
    assert {(each.subject, each.finding) for each in read_entries(path)} == {
        ("kernel/attention", "kernel/scale_is_positive"), ("other.py:attend", "")}

    path.unlink()
    judge()  # whoever starts anew has to choose
    assert [each.finding for each in read_entries(path)] == [""]


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_every_known_failure_of_the_matrix_has_a_finding_and_a_case(path: Path) -> None:
    bare = [" ".join(entry.key) for entry in read_entries(path) if not (entry.finding and entry.case)]
    assert bare == [], "write `finding: LIBRARY/NAME` under each"


def test_the_known_failures_of_the_matrix_are_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CHECKOUT)
    assert main(["lint", "--baseline", "reports/baselines"]) == 0, capsys.readouterr().out


def test_every_judging_environment_has_its_baseline() -> None:
    section = tox()["testenv"]
    held = dict(re.findall(r"^(\w+): BASELINE = (\S+)$", section["set_env"], re.MULTILINE))
    assert held == {release: f"reports/baselines/{release}.yaml" for release in RELEASES}
    assert {path.stem for path in BASELINES} == set(RELEASES)
    judging = re.findall(r"^([\w, ]+): \{\[matrix\]command\}", section["commands"], re.MULTILINE)
    assert {name for names in judging for name in names.split(", ")} == set(RELEASES)


def test_the_matrix_draws_its_cases_by_the_release_that_the_tests_pin() -> None:
    pinned = re.search(r"^hypothesis==.+$", (CHECKOUT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert f": {pinned[0]}" in tox()["testenv"]["deps"]
