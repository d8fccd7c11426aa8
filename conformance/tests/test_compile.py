"""Clauses are compiled before anything runs: what cannot be posed or observed is refused with its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import SpecError
from attnspec.core.nouns import DType
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, Sizes
from attnspec.spec.load import load_spec
from attnspec.trials.compile import Check, compile_spec
from attnspec.vocabulary.scene import NoClaim
from attnspec.vocabulary.tables import INSTRUMENTS, RELATIONS, TRANSFORMS, WORDS
from helpers.places import SMALL_SPEC

CLAUSE = '''theme: own
clauses:
  - id: own.clause
    level: may
    profile: core
    says: Something holds.
    because:
      - {{cite: vaswani2017, note: equation 1}}
    given: {given}
    runs:
{runs}
    then:
      - {then}
'''
ATTENTION, LAYER = "{problem: any_attention}", "{problem: any_attention, kind: layer, grouped: 'no'}"
RECIPE = Recipe(Sizes(1, 2, 2, 3, 4, 2, 2), ("integers",), "none", frozenset(), 1)


def compiled(folder: Path, *, given: str = ATTENTION, runs: str = "original: []",
             then: str = "leaves_inputs: {}") -> Check:
    spec = Path(shutil.copytree(SMALL_SPEC, folder / "spec"))
    lines = "\n".join(f"      {run}" for run in runs.split("; "))
    (spec / "own.yaml").write_text(CLAUSE.format(given=given, runs=lines, then=then))
    return compile_spec(load_spec(spec))["own.clause"]


ERRORS = [
    ("no run of the name that a relation reads", {"runs": "first: []"},
     "own.yaml:13: 'original' is not a known run of the clause. Known: first."),
    ("a relation on attention of a layer", {"given": LAYER, "then": "inside_hull: {}"},
     "own.yaml:13: the relation 'inside_hull' is about attention, but the problem is a layer."),
    ("weights of a layer", {"given": LAYER, "then": "agrees_with_definition: {observe: weights}"},
     "own.yaml:13: a layer does not show 'weights': its values pass through a projection. "
     "Observe output or returned_weights."),
    ("a transform of attention of a layer", {"given": LAYER, "runs": "original: [{repeat_keys: {}}]"},
     "own.yaml:11: the transform 'repeat_keys' is for attention's problems. Give the clause a problem of such a kind."),
    ("a problem that is in parts already",
     {"runs": "original: [{split: {along: batch}}, {repeat_keys: {}}]"},
     "own.yaml:11: the transform 'split' takes the problem apart and must be the last of its run."),
    ("a drawn value with the name of a field", {"given": "{problem: any_attention, draw: {seed: shuffle}}"},
     "own.yaml:9: a drawn value cannot be called 'seed': a recipe has a field of that name."),
    ("a family that no layer has", {"given": "{problem: any_attention, kind: layer, families: [normal]}"},
     "own.yaml:9: a layer cannot have the value family 'normal'."),
    ("a mask for a kind that brings its own", {"given": "{problem: any_attention, kind: mask_attack, masks: [random]}"},
     "own.yaml:9: the kind 'mask_attack' brings its own mask"),
    ("a rate that is no rate", {"then": "has_variance: {value: one, false_alarm: 2}"},
     "own.yaml:13: 'false_alarm' of the relation 'has_variance' should lie between 1e-15 and 0.5, not at 2.0."),
    ("a law of chance that is searched for its worst case", {"then": "has_variance: {value: one, false_alarm: 1.0e-9}"},
     "own.yaml:13: the relation 'has_variance' states a rate of false alarms, which holds only if no worst case is "
     "searched for; problems of kind 'attention' are searched."),
    ("independent roundings of values with structure",
     {"given": "{problem: any_attention, kind: gaussian}",
      "then": "agrees_typically: {observe: output, false_alarm: 0.1}"},
     "own.yaml:13: the relation 'agrees_typically' assumes independent rounding errors, but problems of kind "
     "'gaussian' have structure. Kinds without: generic, long, panel."),
    ("a family with structure where chance judges",
     {"given": "{problem: any_attention, kind: long, families: [integers]}"},
     "own.yaml:9: problems of kind 'long' are judged by a law of chance; the value family 'integers' has a structure."),
    ("a bias with structure where chance judges", {"given": "{problem: any_attention, kind: long, biases: [slopes]}"},
     "own.yaml:9: problems of kind 'long' are judged by a law of chance; the bias 'slopes' has a structure."),
    ("a width that does not grow", {"runs": "original: [{widen: {by: 1}}]"},
     "own.yaml:11: 'by' of the transform 'widen' should lie between 2 and 16, not at 1."),
]


@pytest.mark.parametrize(("parts", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_what_cannot_be_put_to_a_subject_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        compiled(tmp_path, **parts)
    assert str(caught.value).startswith(f"spec/{message}")


@pytest.mark.parametrize(("given", "then", "needs"), [
    (ATTENTION, "leaves_inputs: {}", set()),
    ("{problem: any_attention, always: [causal]}", "leaves_inputs: {}", {"causal"}),
    ("{problem: any_attention, kind: mask_attack}", "leaves_inputs: {}", {"mask"}),
    ("{problem: any_attention, kind: acceptance, grouped: 'no'}", "leaves_inputs: {}", {"mask"}),
    (ATTENTION, "agrees_with_definition: {observe: returned_weights}", {"return_weights"})])
def test_a_clause_needs_what_its_problem_and_its_observables_imply(
    tmp_path: Path, given: str, then: str, needs: set[str],
) -> None:
    assert compiled(tmp_path, given=given, then=then).needs == needs


@pytest.mark.parametrize(("kind", "then", "instrument"), [
    ("attention", "agree: {runs: [original, original], observe: output, within: exact}", "equality"),
    ("attention", "agree: {runs: [original, original], observe: output, within: rounding}",
     "worst-case rounding bound"),
    ("attention", "agrees_with_definition: {observe: weights}",
     "worst-case rounding bound on the weights, measured with V = I"),
    ("attention", "is_refused: {}", "refusal of the call"),
    ("attention", "convention_is: {convention: hidden_row}", "probe of a convention"),
    ("gaussian", "has_variance: {value: one, false_alarm: 1.0e-9}",
     "chi-squared test, at most 1e-09 false alarms per shape"),
    ("long", "agrees_typically: {observe: output, false_alarm: 1.0e-6}",
     "bound for independent rounding errors, at most 1e-06 false alarms per clause")])
def test_a_check_names_what_its_verdict_rests_on(tmp_path: Path, kind: str, then: str, instrument: str) -> None:
    given = f"{{problem: any_attention, kind: {kind}, grouped: 'no'}}"
    assert compiled(tmp_path, given=given, then=then).instrument == instrument


def test_a_check_names_each_instrument_once(tmp_path: Path) -> None:
    then = "\n      - ".join(("agrees_with_definition: {observe: output}", "is_finite: {observe: output}",
                              "sums_to_one: {observe: weights}", "inside_hull: {}"))
    assert compiled(tmp_path, then=then).instrument == (
        "worst-case rounding bound; equality; worst-case rounding bound on the weights, measured with V = I")


def test_every_relation_names_its_instrument() -> None:
    assert INSTRUMENTS.keys() == RELATIONS.keys()


def test_a_drawn_number_picks_from_what_the_problem_offers(tmp_path: Path) -> None:
    check = compiled(tmp_path, given="{problem: any_attention, draw: {cut: row_before_last, kept: key_count}}",
                     runs="original: [{drop_keys: {kept: kept}}]")
    problem = make_problem(RECIPE, DType.FLOAT32)
    assert check.draw_values(problem, {"cut": 3, "kept": 2}) == {"cut": 1, "kept": 3}
    assert check.draw_values(problem, {}) == {"cut": 0, "kept": 1}


def test_where_there_is_nothing_to_draw_the_case_says_nothing(tmp_path: Path) -> None:
    check = compiled(tmp_path, given="{problem: any_attention, draw: {cut: row_before_last}}")
    problem = make_problem(RECIPE, DType.FLOAT32)
    with pytest.raises(NoClaim, match="there is no row before last to draw"):
        check.draw_values(problem.but(query=problem.query[:, :, :1]), {"cut": 3})


def test_runs_that_pose_the_same_are_remembered_under_one_key(tmp_path: Path) -> None:
    check = compiled(tmp_path, given="{problem: any_attention, draw: {kept: key_count}}",
                     runs="original: []; same: []; cut: [{drop_keys: {kept: kept}}]")
    problem = make_problem(RECIPE, DType.FLOAT32)
    keys = {name: posed.key for name, posed in check.pose(problem, {"kept": 2}, "recipe", {}).items()}
    others = check.pose(problem, {"kept": 1}, "recipe", {})
    assert keys["original"] == keys["same"]
    assert others["cut"].key != keys["cut"] != keys["original"]
    assert others["cut"].one.sizes.S == 1
    np.testing.assert_array_equal(others["original"].one.key, problem.key)


def test_every_word_explains_itself() -> None:
    assert all(word.__doc__ for table in WORDS.values() for word in table.values())
    assert len(TRANSFORMS) + len(RELATIONS) > 50
