"""The mutation score: mutants stay the same, equivalent ones are dropped, wrong ones are convicted."""

from __future__ import annotations

import json
from pathlib import Path

import mutation_score
import pytest
import yaml
from mutation.battery import Answers, compare
from mutation.kernel_mutants import KernelMutant, chosen_mutants, kernel_files, mutants_of
from mutation_score import MutantJudged, judge_mutant, read, survivors, table


def mutant(change: str) -> KernelMutant:
    """A mutant of the dense kernel, by the end of its id."""
    [found] = [each for each in mutants_of("dense") if each.id.startswith("dense/") and each.id.endswith(change)]
    return found


def written(folder: Path, made: KernelMutant) -> Path:
    path = folder / "dense.py"
    path.write_text(made.text, encoding="utf-8")
    return path


@pytest.mark.nightly
def test_a_seed_draws_the_same_mutants_always_and_another_seed_others() -> None:
    first, second, other = chosen_mutants(60, 0), chosen_mutants(60, 0), chosen_mutants(60, 1)
    assert [each.id for each in first] == [each.id for each in second]
    assert {each.id for each in first} != {each.id for each in other}


@pytest.mark.nightly
def test_every_kernel_has_its_share() -> None:
    chosen = chosen_mutants(70, 0)
    assert {name: sum(each.kernel == name for each in chosen) for name in kernel_files()} == dict.fromkeys(
        kernel_files(), 10)


def test_a_mutant_is_its_kernel_but_for_one_place_and_has_an_id_of_its_own() -> None:
    every = mutants_of("dense")
    assert len({each.id for each in every}) == len({each.text for each in every}) == len(every)
    text = kernel_files()["dense"].read_text(encoding="utf-8")
    made = mutant("column < row")
    assert text.replace("column <= row", "(column < row)", 1) == made.text
    assert (made.before, made.after) == ("visible &= column <= row", "visible &= (column < row)")


def test_what_a_signature_and_a_declaration_say_is_not_changed() -> None:
    assert not [each.id for each in mutants_of("dense") if each.before.startswith(("def ", "attend."))]


def test_a_kernel_agrees_with_itself() -> None:
    path = kernel_files()["layer"]
    assert compare(path, path).answers is Answers.EQUAL


def test_another_order_of_the_same_sum_is_equivalent(tmp_path: Path) -> None:
    kernel, path = kernel_files()["dense"], tmp_path / "dense.py"
    text = kernel.read_text(encoding="utf-8")
    path.write_text(text.replace("total = weights.sum(", "total = weights[..., ::-1].sum("), encoding="utf-8")
    assert compare(kernel, path).answers is Answers.EQUAL


@pytest.mark.parametrize(("change", "answers"), [("column < row", Answers.WRONG), ("10:12 H % Hkv", Answers.RAISES)])
def test_a_battery_tells_wrong_values_from_exceptions(tmp_path: Path, change: str, answers: Answers) -> None:
    assert compare(kernel_files()["dense"], written(tmp_path, mutant(change))).answers is answers


@pytest.mark.nightly
def test_a_wrong_mutant_is_convicted_and_an_equivalent_one_is_not_ranked() -> None:
    assert judge_mutant(mutant("column < row")).is_convicted
    text = kernel_files()["dense"].read_text(encoding="utf-8")
    same = judge_mutant(KernelMutant("dense", "dense/same", text, "", ""))
    assert (same.answers, same.standing) == (Answers.EQUAL, "")


def line(name: str, answers: Answers, standing: str, after: str = "now") -> MutantJudged:
    return MutantJudged(f"dense/{name}", "", "before", after, answers, 1, 1, 0, "", standing)


def test_a_survivor_has_its_reason_only_as_long_as_the_line_is_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"dense/a": {"now": "now", "reason": "no size that is tried is so large"},
            "dense/b": {"now": "another line", "reason": "?"}}
    path = tmp_path / "survivors.yaml"
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    monkeypatch.setattr(mutation_score, "SURVIVORS", path)
    judged_ones = [line("a", Answers.WRONG, "conforms"), line("b", Answers.RAISES, "conforms"),
                   line("c", Answers.WRONG, "violated"), line("d", Answers.EQUAL, "")]
    found = {each.id: reason for each, reason in survivors(judged_ones)}
    assert found == {"dense/a": "no size that is tried is so large", "dense/b": ""}
    assert "| all | 4 | 1 | 2 | 1 (50.0%) | 1 | 0 (0.0%) | 0 | – |" in list(table(judged_ones))


def test_a_record_of_another_spec_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    assert read(path) == {}
    with path.open("a", encoding="utf-8") as file:
        file.write(line("a", Answers.WRONG, "violated").as_json() + "\n")
    assert read(path)["dense/a"].is_convicted
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "spec": "another"}), *rest]), encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        read(path)
