# ruff: noqa: E501  (a mistake and its answer are read together)
"""Clauses of one's own beside the shipped ones: `--spec-add mine.yaml`, and `spec_add` of `gate`."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attnspec.core.errors import FileLocation, SpecError
from attnspec.core.nouns import DType, Effort, Level
from attnspec.core.plan import Item, Plan
from attnspec.faults.catalogue import CATALOGUE
from attnspec.faults.subject import own_subject
from attnspec.record.read import RunRecord, read_record
from attnspec.report.page import render_page
from attnspec.runner.gate import gate
from attnspec.runner.judge import replay_command
from attnspec.spec.load import load_spec
from attnspec.spec.yaml_lines import load_yaml
from attnspec.trials.compile import compile_spec
from attnspec.trials.sizes import Dealer
from attnspec.vocabulary.tables import DRAWS, MEANINGS, WORDS, schema
from helpers.commands import Cli
from helpers.places import SMALL_SPEC
from jsonschema import Draft202012Validator

MINE = """\
clauses:
  - id: mine.doubled
    level: must
    profile: core
    says: Doubling the values doubles the output.
    because: [{cite: design, note: the output is linear in the values}]
    given: {problem: small, min_batch: 2}
    runs:
      original: []
      doubled: [{multiply: {array: value, by: 2}}]
    then: [{is_multiple: {run: doubled, of: original, by: 2, observe: output}}]
sources:
  design: {title: What our kernel promises, kind: notes}
problems:
  small: {kind: attention, families: [integers]}
"""
SUBJECT = """
import numpy as np

def attend(query, key, value):
    logits = query @ key.swapaxes(-1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value

def clipped(query, key, value):
    return np.clip(attend(query, key, value), -2, 2)
"""


@pytest.fixture(autouse=True)
def mine(here: Path) -> Path:
    """A sound file of own clauses, and a subject, in the working directory."""
    (here / "subject.py").write_text(SUBJECT, encoding="utf-8")
    (here / "mine.yaml").write_text(MINE, encoding="utf-8")
    return Path("mine.yaml")


# --- how they are read

def test_own_clauses_come_after_the_shipped_ones_which_stay_as_they_are(mine: Path) -> None:
    shipped, law = load_spec(), load_spec(added=[mine])
    assert law.clauses[:-1] == shipped.clauses
    own = law.clauses[-1]
    assert (own.id, own.theme, own.level, own.where) == ("mine.doubled", "mine", Level.MUST, FileLocation("mine.yaml", 2))


@pytest.mark.nightly
def test_own_clauses_leave_the_sizes_of_the_shipped_ones_as_they_are(mine: Path) -> None:
    subject = own_subject("sound/naive")
    shipped, law = compile_spec(load_spec()), compile_spec(load_spec(added=[mine]))
    alone, beside = Dealer(subject, lambda: shipped, Effort.QUICK, 0), Dealer(subject, lambda: law, Effort.QUICK, 0)
    dealt = {name: (alone.shapes(check, DType.FLOAT32), beside.shapes(check, DType.FLOAT32))
             for name, check in shipped.items() if not check.why_not_put(subject)}
    assert len(dealt) > 100
    assert all(before == after for before, after in dealt.values())
    assert beside.shapes(law["mine.doubled"], DType.FLOAT32)


def test_an_own_clause_may_name_the_pool_with_which_it_shares_out_sizes(mine: Path) -> None:
    assert load_spec(added=[mine]).clauses[-1].pool == "own"
    mine.write_text(MINE.replace("    level: must", "    level: must\n    pool: ours"), encoding="utf-8")
    assert load_spec(added=[mine]).clauses[-1].pool == "ours"


def test_own_clauses_use_sources_and_problems_of_their_own_and_shipped(mine: Path) -> None:
    mine.write_text(MINE.replace("because: [", "because: [{cite: vaswani2017, note: equation 1}, "), encoding="utf-8")
    law = load_spec(added=[mine])
    assert [law.bibliography[each.cite].title for each in law.clauses[-1].because] == [
        "Attention Is All You Need", "What our kernel promises"]
    assert law.clauses[-1].given.args == {"kind": "attention", "families": ["integers"], "min_batch": 2}


def test_a_file_may_use_the_sources_of_another(mine: Path) -> None:
    text = MINE.replace("mine.doubled", "mine.twice")
    Path("more.yaml").write_text(text[: text.index("sources:")], encoding="utf-8")
    assert [clause.id for clause in load_spec(added=["more.yaml", mine]).clauses[-2:]] == ["mine.twice", "mine.doubled"]


def test_the_digest_covers_added_files(mine: Path) -> None:
    everything = b"".join(path.read_bytes() for path in sorted(SMALL_SPEC.glob("*.yaml")))
    law = load_spec(SMALL_SPEC, [mine])
    assert law.digest == hashlib.sha256(everything + mine.read_bytes()).hexdigest()
    assert load_spec(added=[mine]).added == ("mine.yaml",)


def test_a_folder_stands_for_its_yaml_files_and_each_file_is_read_once(mine: Path) -> None:
    Path("own").mkdir()
    mine.rename("own/b.yml")
    Path("own/a.yaml").write_text(MINE[: MINE.index("sources:")].replace("mine.", "more."), encoding="utf-8")
    Path("own/README.md").touch()
    law = load_spec(added=["own", "own/b.yml", Path("own").absolute()])
    assert law.added == ("own/a.yaml", "own/b.yml")
    assert [clause.id for clause in law.clauses[-2:]] == ["more.doubled", "mine.doubled"]


def test_the_schema_completes_a_file_of_own_clauses(mine: Path) -> None:
    validator = Draft202012Validator(schema(WORDS, CATALOGUE))
    assert list(validator.iter_errors(load_yaml(mine))) == []
    mine.write_text(MINE.replace("level: must", "level: most"), encoding="utf-8")
    assert list(validator.iter_errors(load_yaml(mine))) != []


# --- mistakes (what the author did, what stood there, what stands there now, the answer)

MISTAKES = [
    ("an id of the shipped law", "mine.doubled", "scale.read_out",
     "mine.yaml:2: there are two clauses 'scale.read_out'; the first is at spec/scale.yaml:…"),
    ("a shipped source", "design", "vaswani2017",
     "mine.yaml:13: there are two sources 'vaswani2017'; the first is at spec/bibliography.yaml:…"),
    ("a shipped problem", "small", "attention",
     "mine.yaml:15: there are two problems 'attention'; the first is at spec/problems.yaml:…"),
    ("a misspelled word", "multiply:", "multipy:",
     "mine.yaml:10: 'multipy' is not a known transform. Did you mean 'multiply'? …"),
    ("a misspelled source", "cite: design", "cite: desing",
     "mine.yaml:6: 'desing' is not a known source of the bibliography. Did you mean 'design'? …"),
    ("a misspelled problem", "problem: small", "problem: smal",
     "mine.yaml:7: 'smal' is not a known problem. Did you mean 'small'? …"),
    ("a misspelled argument of a problem", "families:", "family:",
     "mine.yaml:15: 'family' is not a known argument of the problem 'small'. Did you mean 'families'?"),
    ("no source", "    because: [{cite: design, note: the output is linear in the values}]\n", "",
     "mine.yaml:2: the clause 'mine.doubled' needs 'because'. It has: …"),
    ("a misspelled fault", "    runs:", "    refuted_by: [scale_nne]\n    runs:",
     "mine.yaml:8: 'scale_nne' is not a known fault. Did you mean 'scale_none'? …"),
    ("a theme", "clauses:", "theme: mine\nclauses:",
     "mine.yaml:1: a file of your own clauses has no 'theme': leave it out. The part of an id before the dot is its theme."),
    ("text for a list", "families: [integers]", "families: integers",
     "mine.yaml:15: 'families' of the problem 'small' should be one of any or a list, each entry one of …"),
    ("a drawn value that is none", "multiply: {array: value, by: 2}", "shift_keys: {by: amount}",
     "mine.yaml:10: 'amount' is not a known drawn value of the clause. Known: none. Declare it under `given: draw:`."),
    ("a misspelled key of the file", "clauses:", "clause:",
     "mine.yaml:1: 'clause' is not a known key of an added file. Did you mean 'clauses'?"),
    ("sources alone", MINE[: MINE.index("sources:")], "",
     "mine.yaml:1: an added file needs 'clauses'. It has: sources, problems."),
    ("no clause", MINE, "clauses: []\n", "mine.yaml:1: 'clauses' of an added file is empty; write at least one clause."),
    ("nothing", MINE, "# to be written\n", "mine.yaml:1: is empty; a mapping with the key `clauses` is expected."),
    ("a list", MINE, "- id: mine.doubled\n", "mine.yaml:1: holds a list; a mapping with the key `clauses` is expected."),
    ("Python", MINE, SUBJECT, "mine.yaml:4: is not YAML: mapping values are not allowed in this context."),
]


@pytest.mark.family(2)
@pytest.mark.parametrize(("was", "now", "answer"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_answered_before_anything_is_judged(cli: Cli, mine: Path, was: str, now: str, answer: str) -> None:
    assert was in MINE
    mine.write_text(MINE.replace(was, now), encoding="utf-8")
    code, out, err = cli("check", "subject:attend", "--spec-add", "mine.yaml")
    assert (code, out) == (2, "")
    assert err.startswith(f"attnspec: {answer.removesuffix('…')}")
    assert err.endswith("\n") if answer.endswith("…") else err == f"attnspec: {answer}\n"
    assert not Path("reports").exists()


def test_an_id_in_two_added_files_is_a_mistake(cli: Cli, mine: Path) -> None:
    Path("more.yaml").write_text("clauses:\n\n" + MINE[9 : MINE.index("sources:")], encoding="utf-8")
    code, out, _ = cli("lint", "--spec-add", str(mine), "--spec-add", "more.yaml")
    assert code == 2
    assert "more.yaml:3: there are two clauses 'mine.doubled'; the first is at mine.yaml:2. Rename this one.\n" in out


def test_a_file_or_folder_without_clauses_to_read_is_named(cli: Cli) -> None:
    Path("own").mkdir()
    assert cli("lint", "--spec-add", "mien.yaml")[1] == "mien.yaml: there is no such file.\n1 to mend.\n"
    assert cli("explain", "mine.doubled", "--spec-add", "own")[2] == (
        "attnspec: own: this folder should hold your own clauses, but there is no YAML file in it.\n")


def test_a_must_clause_of_the_spec_still_names_a_fault(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    for path in SMALL_SPEC.glob("*.yaml"):
        (tmp_path / "spec" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "spec" / "mine.yaml").write_text("theme: mine\n" + MINE[: MINE.index("sources:")].replace(
        "design", "vaswani2017").replace("small", "any_attention"), encoding="utf-8")
    mine.unlink()
    with pytest.raises(SpecError, match=r"the clause 'mine\.doubled' needs 'refuted_by': a must clause names a fault"):
        load_spec(tmp_path / "spec")


# --- the commands

@pytest.mark.nightly
def test_own_clauses_are_listed_linted_and_explained(cli: Cli) -> None:
    assert cli("lint", "--spec-add", "mine.yaml") == (0, "No problem found.\n", "")
    assert "mine.doubled" in cli("list", "clauses", "--spec-add", "mine.yaml")[1]
    assert "mine.doubled" not in cli("list", "clauses")[1]
    assert "What our kernel promises" in cli("list", "sources", "--spec-add", "mine.yaml")[1]
    assert "kind: attention, families: [integers]" in cli("list", "problems", "--spec-add", "mine.yaml")[1]
    _, out, _ = cli("explain", "mine.doubled", "--spec-add", "mine.yaml")
    assert out.startswith("mine.doubled  (must, profile core)  mine.yaml:2\n")
    assert out.endswith(f"{MINE[MINE.index('  - id'):MINE.index('sources:')]}")


def clause(name: str, more: str = "", **keys: str) -> str:
    """A clause of an own file with other keys."""
    said = {"given": "{problem: small}", "runs": "{original: []}", "then": "[leaves_inputs]", **keys}
    return (f"  - id: mine.{name}\n    level: must\n    profile: core\n    says: Something holds.\n"
            f"    because: [{{cite: design, note: none}}]\n{more}" + "".join(f"    {k}: {v}\n" for k, v in said.items()))


def linted(cli: Cli, *clauses: str) -> list[str]:
    Path("own.yaml").write_text("clauses:\n" + "".join(clauses) + MINE[MINE.index("sources:"):], encoding="utf-8")
    code, out, _ = cli("lint", "--spec-add", "own.yaml")
    assert code == (0 if out == "No problem found.\n" else 2)
    return out.splitlines()


def test_lint_tells_the_mistakes_of_all_clauses_in_one_run(cli: Cli) -> None:
    lines = linted(cli, clause("first", levl="must"), clause("second", then="[{is_finit: {}}]"), clause("third"),
                   clause("fourth", given="{problem: smal}"), clause("fifth", runs="{original: [{agian: {}}]}"))
    assert [line.partition("'")[2].partition("'")[0] for line in lines] == ["levl", "smal", "is_finit", "agian", ""]
    assert lines[-1] == "4 to mend."


def test_lint_tells_the_mistakes_of_all_clauses_of_a_spec_too(cli: Cli, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(Path(__file__).parent / "small_spec", tmp_path / "spec"))
    wrong = "".join(clause(name, levl="must").replace("design", "vaswani2017") for name in ("first", "second"))
    (folder / "mine.yaml").write_text(f"theme: mine\nclauses:\n{wrong}", encoding="utf-8")
    assert cli("lint", "--spec", str(folder))[1].count("'levl' is not a known key of a clause.") == 2


@pytest.mark.family(1)
@pytest.mark.parametrize(("keys", "answer"), [
    ({"runs": "{original: [], tripled: [{multiply: {array: query, by: 3}}]}"},
     "'by' of the transform 'multiply' should be a power of two, as 2, 0.5 or -4, not 3."),
    ({"runs": "{original: [], gone: [{multiply: {array: query, by: 0}}]}"},
     "'by' of the transform 'multiply' should be a power of two, as 2, 0.5 or -4, not 0."),
    ({"runs": "{original: [], again: [{again: {}}]}"},
     "the run 'again' of 'mine.it' is used by nothing: name it where it belongs, or leave it out."),
    ({"given": "{problem: small, draw: {order: shuffle}}"},
     "the drawn value 'order' of 'mine.it' is used by nothing: name it where it belongs, or leave it out."),
    ({"then": "[{agree: {runs: [original, original], observe: output, within: exact}}]"},
     "the relation 'agree' compares the run 'original' with itself: name two runs."),
    ({"runs": "{one: [{again: {}}], two: [{again: {}}]}",
      "then": "[{agree: {runs: [one, two], observe: output, within: exact}}]"},
     "the relation 'agree' compares 'one' with 'two', which is the same run: let one of them change the problem."),
    ({"given": "{problem: small, draw: {step: shuffle}}", "runs": "{original: [{shift_keys: {by: step}}]}"},
     "'by' of 'shift_keys' wants a number to add (small_step); 'step' is drawn by shuffle, which gives a seed."),
], ids=["no-power-of-two", "zero", "unused-run", "unused-drawn-value", "equal-runs", "same-run-twice", "drawn-of-another-kind"])
def test_lint_refuses_what_makes_a_claim_empty(cli: Cli, keys: dict[str, str], answer: str) -> None:
    [line, count] = linted(cli, clause("it", **keys))
    assert line.partition(": ")[2] == answer
    assert count == "1 to mend."
    assert linted(cli, clause("it")) == ["No problem found."]


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "why"), [
    ("output_with_residual", ""), ("size_keys_tail_lost", ""),
    ("scale_none", "its first 5 cases hold at every dtype"),
    ("layer_unscaled", "its first 5 cases hold at every dtype"),
    ("rotary_pairs_swapped", "it cannot be put to it (it is a rotary embedding, not attention)")])
def test_lint_puts_own_clauses_to_the_faults_that_they_name(cli: Cli, mine: Path, fault: str, why: str) -> None:
    mine.write_text(MINE.replace("sources:", f"    refuted_by: [{fault}]\nsources:"), encoding="utf-8")
    told = (f"mine.yaml:12: 'mine.doubled' does not detect '{fault}', which it names: {why}. Name one that it does: "
            "attnspec check 'fault/*' --spec-add mine.yaml --clause mine.doubled tells.\n1 to mend.\n")
    assert cli("lint", "--spec-add", "mine.yaml") == ((2, told, "") if why else (0, "No problem found.\n", ""))


@pytest.mark.nightly
def test_lint_puts_own_clauses_to_what_is_right(cli: Cli, mine: Path) -> None:
    mine.write_text(MINE.replace("by: 2, observe", "by: 4, observe"), encoding="utf-8")
    told = ("mine.yaml:2: 'mine.doubled' is false: sound/naive, whose answers are right by the definition, violates it. Mend "
            "it, or say under `given` where it holds: attnspec check sound/naive --spec-add mine.yaml --clause mine.doubled "
            "shows a case.\n1 to mend.\n")
    assert cli("lint", "--spec-add", "mine.yaml") == (2, told, "")


def test_every_word_of_draw_says_what_it_gives() -> None:
    assert MEANINGS.keys() == DRAWS.keys()


def test_whoever_asks_for_an_own_clause_without_its_file_is_told(cli: Cli) -> None:
    hint = " A clause of your own is found with --spec-add FILE.\n"
    assert cli("explain", "mine.doubled")[2].endswith(hint)
    for name in ("mine.*", "mine.doubled"):
        code, _, err = cli("check", "subject:attend", "--clause", name)
        assert (code, err.endswith(hint)) == (2, True)
    assert cli("replay", "subject:attend mine.doubled float32 B1H1T1S1D1Dv1;integers;none;-;1")[2].endswith(hint)
    for name in ("casual.*", "causal.no_lookahed"):
        assert not cli("check", "subject:attend", "--clause", name)[2].endswith(hint)


@pytest.mark.nightly
def test_own_clauses_are_shown_with_the_mistakes_in_their_words_alone(cli: Cli, mine: Path) -> None:
    for words in (["explain", "mine.doubled"], ["list", "clauses"]):
        assert cli(*words, "--spec-add", "mine.yaml")[::2] == (0, "")
    mine.write_text(MINE.replace("multiply:", "multipy:"), encoding="utf-8")
    for words in (["explain", "mine.doubled"], ["list", "clauses"]):
        code, out, err = cli(*words, "--spec-add", "mine.yaml")
        assert code == 2
        assert re.fullmatch(r"mine\.yaml:\d+: 'multipy' is not a known transform\. Did you mean 'multiply'\? .*\n", err)
        assert "mine.doubled" in out
    assert cli("explain", "causal.*", "--spec-add", "mine.yaml")[2] == ""


@pytest.mark.nightly
def test_two_files_of_own_clauses_may_give_the_same_source_alike(cli: Cli, mine: Path) -> None:
    second = MINE.replace("mine.doubled", "mine.doubled_too")
    mine.with_name("second.yaml").write_text(second, encoding="utf-8")
    added = ("--spec-add", "mine.yaml", "--spec-add", "second.yaml")
    assert cli("lint", *added)[0] == 0
    mine.with_name("second.yaml").write_text(second.replace("families: [integers]", "families: [normal]"),
                                             encoding="utf-8")
    assert "there are two problems 'small'; the first is at mine.yaml:15. Rename this one." in cli("lint", *added)[1]


def test_text_where_a_list_belongs_is_told_as_a_list(cli: Cli, mine: Path) -> None:
    mine.write_text(MINE.replace("[integers]", "integers"), encoding="utf-8")
    assert cli("check", "subject:attend", "--spec-add", "mine.yaml")[2].endswith("not text ('integers'). Write [integers].\n")


def judged(cli: Cli, *words: str) -> tuple[int, str, RunRecord]:
    code, out, _ = cli("check", "subject:clipped", "--dtype", "float32", "--effort", "quick", "-n", "1",
                       "--record", "run.jsonl", *words)
    return code, out, read_record(Path("run.jsonl"))


def test_an_own_clause_is_judged_and_replayed_by_the_line_printed(cli: Cli) -> None:
    code, out, record = judged(cli, "--spec-add", "mine.yaml", "--clause", "mine.doubled")
    assert code == 1
    assert "mine.doubled (mine.yaml:2) is violated" in out
    again = shlex.split(record.outcomes[0].repeat)
    assert again[:4] == ["attnspec", "replay", "--spec-add", "mine.yaml"]
    code, out, _ = cli(*again[1:])
    assert code == 1
    assert "mine.doubled (mine.yaml:2) is violated" in out


@pytest.mark.nightly
def test_a_record_names_the_added_files_and_no_folder_of_the_machine(cli: Cli, mine: Path, tmp_path: Path) -> None:
    _, _, record = judged(cli, "--spec-add", str(mine.absolute()), "--clause", "mine.doubled")
    assert record.header.spec_added == ("mine.yaml",)
    assert record.header.clauses[0].where == "mine.yaml:2"
    assert str(tmp_path) not in Path("run.jsonl").read_text(encoding="utf-8")
    assert "with mine.yaml" in render_page([record])


@pytest.mark.nightly
def test_a_clause_from_elsewhere_is_recorded_by_the_name_of_its_file(
    cli: Cli, mine: Path, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    elsewhere = mine.rename(tmp_path_factory.mktemp("elsewhere") / "mine.yaml")
    _, _, record = judged(cli, "--spec-add", str(elsewhere), "--clause", "mine.doubled")
    assert record.header.clauses[0].where == "mine.yaml:2"
    assert str(elsewhere.parent) not in Path("run.jsonl").read_text(encoding="utf-8")


def test_a_line_to_replay_names_files_as_they_were_typed() -> None:
    plan = Plan(("mine:attend",), spec_add=("../own.yaml", "two words.yaml"))
    line = replay_command(Item("mine:attend", "mine.doubled", "float32"), "B1;seed=3", plan)
    assert line.startswith("attnspec replay --spec-add ../own.yaml --spec-add 'two words.yaml' 'mine:attend")


# --- the gate

def items(test: Callable[..., None]) -> list[str]:
    [mark] = test.pytestmark  # type: ignore[attr-defined]  # what `parametrize` leaves
    return [parameter.values[0].clause for parameter in mark.args[1]]


@pytest.mark.nightly
def test_a_gate_takes_own_clauses_as_one_path_or_several(mine: Path) -> None:
    options = {"clauses": ["mine.doubled"], "dtypes": ["float32"]}
    for given in ("mine.yaml", mine.absolute(), [mine], ("mine.yaml",)):
        assert items(gate("subject.py:attend", spec_add=given, **options)) == ["mine.doubled"]  # type: ignore[arg-type]  # of several types


def test_a_gate_takes_one_clause_dtype_and_profile_as_a_text(mine: Path) -> None:
    taken = items(gate("subject.py:attend", spec_add=mine, clauses="mine.*", dtypes="float32", profiles="core"))
    assert taken == ["mine.doubled"]


def test_a_gate_judges_them_beside_the_others(mine: Path) -> None:
    every = items(gate("subject.py:attend", spec_add=mine, dtypes=["float32"]))
    assert every[-1] == "mine.doubled"
    assert len(every) == len(items(gate("subject.py:attend", dtypes=["float32"]))) + 1


def test_a_gate_with_a_mistake_in_an_own_clause_is_not_collected(mine: Path) -> None:
    mine.write_text(MINE.replace("multiply:", "multipy:"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"mine\.yaml:10: 'multipy' is not a known transform"):
        gate("subject.py:attend", spec_add=mine)
