# ruff: noqa: E501  (a mistake and its answer are read together)
"""What `attnspec lint` reads of libraries and of clauses that a run would only stumble over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.commands import Cli
from helpers.places import TESTS

FINDING = """\
findings:
  - {id: ignored, says: The flag is ignored., subjects: [attention], clauses: [causal.*], script: adapter.py,
     documented: 'no', harm: future, seen: [{needs: [causal]}]}
"""


@pytest.fixture
def library(here: Path) -> Path:
    """A small sound library in `implementations/`, which is read beside the shipped ones."""
    return Path(shutil.copytree(TESTS / "small_implementations", here / "implementations")) / "mine"


def linted(cli: Cli) -> list[str]:
    code, out, _ = cli("lint", "--implementations", "implementations")
    *lines, last = out.splitlines()
    assert (code, last) == ((2, f"{len(lines)} to mend.") if lines else (0, "No problem found."))
    return [line.removeprefix("implementations/mine/") for line in lines]


# (what it is, what stood in the manifest, what stands there now, what lint says)
MANIFEST = [
    ("a grade", "grade: G1", "grade: G7", "manifest.yaml:13: 'G7' is not a known grade. Known: G0, G1, G2, G3, G4."),
    ("a word", "grade: G1", "exp_ulp: 2",
     "manifest.yaml:13: 'exp_ulp' is not a known word of a precision class. Did you mean 'exp_ulps'?"),
    ("a negative number", "grade: G1", "exp_ulps: -2",
     "manifest.yaml:13: 'exp_ulps' in a precision class must be a number, not negative, not -2."),
    ("not a number", "grade: G1", "exp_ulps: .nan",
     "manifest.yaml:13: 'exp_ulps' in a precision class must be a number, not negative, not nan."),
    ("a wrong type", "grade: G1", "block: [16]",
     "manifest.yaml:13: 'block' in a precision class must be a whole number, at least 1, not [16]."),
    ("a dtype", "grade: G1", "softmax: float23",
     "manifest.yaml:13: 'float23' is not a known dtype (of 'softmax' in a precision class). Did you mean 'float32'?"),
    ("a class of a variant", "{function: adapter:attend}",
     "{function: adapter:attend, precision: {float64: {systematic: never, reason: none}}}",
     "manifest.yaml:15: 'never' is not a known choice (of 'systematic' in a precision class). Known: accumulator, output."),
    ("a document", "    dtypes:", "    document: vaswani2018\n    dtypes:",
     "manifest.yaml:5: 'vaswani2018' is not a known source of the bibliography. Did you mean 'vaswani2017'? `attnspec list "
     "sources` names them all."),
    ("a deviation where it is not judged", 'until: "2.0"', 'until: "2.0"\n        dtypes: [float16]',
     "manifest.yaml:17: mine/attention does not take float16, so it cannot deviate there."),
]


@pytest.mark.family(2)
@pytest.mark.parametrize(("was", "now", "message"), [row[1:] for row in MANIFEST], ids=[row[0] for row in MANIFEST])
def test_lint_tells_what_would_keep_a_subject_from_being_judged(
    cli: Cli, library: Path, was: str, now: str, message: str,
) -> None:
    manifest = library / "manifest.yaml"
    text = manifest.read_text(encoding="utf-8")
    assert text.count(was) >= 1
    manifest.write_text(now.join(text.rsplit(was, 1)), encoding="utf-8")
    assert linted(cli) == [message]


@pytest.mark.family(2)
@pytest.mark.parametrize(("was", "now", "message"), [
    ("[attention]", "[atention]",
     "findings.yaml:2: the finding 'mine/ignored' names 'mine/atention', but there is no such subject. Did you mean "
     "'mine/attention'? `attnspec list` names them all."),
    ("[causal.*]", "[casual.*]",
     "findings.yaml:2: the finding 'mine/ignored' names 'casual.*', but there is no such clause. Did you mean "
     "'causal.*'? `attnspec list clauses` names them all."),
    ("[causal.*]", f"['{'9' * 200}']",
     f"findings.yaml:2: the finding 'mine/ignored' names '{'9' * 99}… (202 characters), but there is no such clause. "
     "`attnspec list clauses` names them all."),
    ("says:", "sais:", "findings.yaml:2: 'sais' is not a known key of a finding. Did you mean 'says'?"),
    ("[causal.*]", "['*']",
     "findings.yaml:2: the finding 'mine/ignored' explains every clause ('*'), whatever was seen. Leave out 'clauses', and "
     "say under 'seen' what a failure has to show."),
    (", seen: [{needs: [causal]}]", "",
     "findings.yaml:2: the finding 'mine/ignored' explains 'causal.*', whatever was seen. Name the clauses, or say under "
     "'seen' what a failure has to show."),
    ("harm: future, ", "",
     "findings.yaml:2: the finding 'mine/ignored' does not say what it does to a user. Add 'harm', one of foreign_memory, "
     "foreign_entry, future, mask_dropped, wrong_answer, switch, refused, edge, rounding, extreme, documented_choice."),
    ("harm: future", "harm: documented_choice",
     "findings.yaml:2: the finding 'mine/ignored' is a documented choice, and 'documented' has no words of the library. "
     'Quote them in "…", and say where they are written.'),
    ("needs: [causal]", "clauses: [casual.*]",
     "findings.yaml:2: the finding 'mine/ignored' names 'casual.*', but there is no such clause. Did you mean "
     "'causal.*'? `attnspec list clauses` names them all."),
], ids=["a subject", "a clause", "a long clause", "a key", "every clause", "a pattern without evidence", "no harm", "a choice unquoted",
        "a clause of what was seen"])
def test_lint_reads_findings(cli: Cli, library: Path, was: str, now: str, message: str) -> None:
    (library / "findings.yaml").write_text(FINDING.replace(was, now), encoding="utf-8")
    assert linted(cli) == [message]


def test_lint_finds_nothing_wrong_with_a_right_finding(cli: Cli, library: Path) -> None:
    (library / "findings.yaml").write_text(FINDING, encoding="utf-8")
    assert linted(cli) == []


@pytest.mark.nightly
def test_lint_tells_a_mistake_of_every_library(cli: Cli, library: Path) -> None:
    shutil.copytree(library, library.with_name("yours"))
    for name in ("mine", "yours"):
        (library.with_name(name) / "manifest.yaml").write_text("librry: x\n", encoding="utf-8")
    first, second = linted(cli)
    assert first.startswith("manifest.yaml:1: 'librry'")
    assert second.startswith("implementations/yours/manifest.yaml:1: 'librry'")


def test_lint_tells_a_quote_that_is_not_in_english_and_has_no_translation(cli: Cli, spec: Path) -> None:
    assert cli("lint", "--spec", "spec")[1] == "No problem found.\n"
    causal = spec / "causal.yaml"
    causal.write_text(causal.read_text(encoding="utf-8").replace(", translation: only to tokens generated before", ""))
    assert cli("lint", "--spec", "spec")[1].splitlines() == [
        "spec/causal.yaml:9: the quote of 'aiayn_notes' under 'causal.no_lookahead' is not in English ('使'). Add "
        "'translation' beside it: the quote in English.", "1 to mend."]


def test_lint_tells_a_clause_that_no_problem_can_be_put_under(cli: Cli, spec: Path) -> None:
    scale = spec / "scale.yaml"
    scale.write_text(scale.read_text(encoding="utf-8").replace("any_attention}", "any_attention, min_keys: 9000}"))
    assert cli("lint", "--spec", "spec")[1].splitlines()[-2:] == [
        "spec/scale.yaml:9: 'scale.inverse_root_width' is never tested: no size that is drawn has what `given` asks "
        "for (min_…, lengths, grouped, inputs). Ask for less.", "1 to mend."]
