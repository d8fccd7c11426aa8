"""spec/schema.json lets editors complete, explain and refuse what the compiler would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attnspec.core import paths
from attnspec.faults.catalogue import CATALOGUE
from attnspec.spec.yaml_lines import load_yaml
from attnspec.vocabulary.tables import WORDS, schema, schema_text
from helpers.places import SMALL_SPEC
from jsonschema import Draft202012Validator

VALIDATOR = Draft202012Validator(schema(WORDS))
FILES = sorted([*SMALL_SPEC.glob("*.yaml"), *paths.folder("spec").glob("*.yaml")])


def refusals(document: object) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(document)]


def with_clause(**changes: object) -> dict[str, object]:
    document = load_yaml(SMALL_SPEC / "causal.yaml")
    return {"theme": "causal", "clauses": [{**document["clauses"][0], **changes}]}


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema(WORDS))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_file_of_the_law_satisfies_it(path: Path) -> None:
    assert refusals(load_yaml(path)) == []


@pytest.mark.parametrize("changes", [
    {"level": "shall"},
    {"profile": "casual"},
    {"id": "NoLookahead"},
    {"says": "No full stop"},
    {"because": []},
    {"because": [{"cite": "vaswani2017"}]},
    {"refuted_by": []},
    {"refuted_by": ["a", "b", "c", "d", "e"]},
    {"given": {"problem": "self_attention", "lenghts": "self"}},
    {"given": {"problem": "self_attention", "draw": {"cut": "row_befor_last"}}},
    {"runs": {"moved": [{"replace_aftr": {"arrays": ["key"], "cut": "cut"}}]}},
    {"runs": {"moved": [{"replace_after": {"arrays": ["keys"], "cut": "cut"}}]}},
    {"runs": {"moved": [{"replace_after": {"arrays": ["key"]}}]}},
    {"runs": {"moved": ["replace_after"]}},
    {"then": []},
    {"then": [{"agree": {"runs": ["original"], "observe": "output", "within": "exact"}}]},
    {"then": [{"is_finite": {"observe": "output"}, "leaves_inputs": None}]},
    {"needs": ["casual"]},
    {"extra": 1},
], ids=str)
def test_it_refuses_a_mistake(changes: dict[str, object]) -> None:
    assert refusals(with_clause(**changes)) != []


def test_a_word_that_needs_nothing_may_stand_bare() -> None:
    assert refusals(with_clause(then=["leaves_inputs", {"leaves_inputs": None}, {"leaves_inputs": {}}])) == []


def test_every_word_is_explained_by_its_docstring() -> None:
    text = schema_text(WORDS)
    for table in WORDS.values():
        for word in table.values():
            assert word.__doc__, word
            assert json.dumps(word.__doc__.strip().splitlines()[0], ensure_ascii=False)[1:-1] in text


def test_a_fault_that_does_not_exist_is_refused_where_the_faults_are_known() -> None:
    validator = Draft202012Validator(schema(WORDS, faults=["causal_ignored"]))
    assert list(validator.iter_errors(with_clause(refuted_by=["causal_ignored"]))) == []
    assert list(validator.iter_errors(with_clause(refuted_by=["causal_ignord"]))) != []


def test_the_shipped_schema_is_that_of_the_words() -> None:
    shipped = (paths.folder("spec") / "schema.json").read_text(encoding="utf-8")
    assert shipped == schema_text(WORDS, CATALOGUE), "stale; write it anew: attnspec schema --write"
