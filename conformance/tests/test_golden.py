"""Cases, expectations, allowances, ids, records, pages and commands are what they were recorded to be, to the bit.

A normal run computes a quarter of the cases or less; `ATTNSPEC_GOLDEN=all` makes it all of them, in some minutes:

    ATTNSPEC_GOLDEN=all python -m pytest -q conformance/tests/test_golden.py

What differs on purpose is recorded anew with `python -m golden.record` (conformance/tests/golden/record.py says how).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from golden import adapter, digests, records, stored
from golden.stored import PUTS, Put

IS_WHOLE = os.environ.get("ATTNSPEC_GOLDEN") == "all"
ONE_IN = 1 if IS_WHOLE else 4
"""Of how many pairs of clause and dtype one is computed."""

ONE_DEAL_IN = 1 if IS_WHOLE else 16
"""Of how many subjects and clauses the recipes are dealt anew."""

CASES, DRAWS, BOUNDS, IDS = (stored.read(f"{name}.json") for name in ("cases", "draws", "bounds", "ids"))
RUNS, PAGES, EXITS, COMMANDS = (stored.read(f"{name}.json") for name in ("runs", "pages", "exits", "commands"))


def same_machine(dtype: str = "float32") -> None:
    """Skip where the last bits of numbers rounded to this dtype are others."""
    if reason := stored.other_machine(CASES["machine"], dtype):
        pytest.skip(f"the last bits of rounded numbers depend on the machine: {reason}")


def pairs(put: Put) -> list[tuple[str, str]]:
    """The recorded pairs of clause and dtype of a part, or a fixed sample of them."""
    recorded = [f"{clause} {dtype}" for clause, dtype in put.pairs()
                if dtype in CASES["digests"].get(stored.key_of(put, clause), {})]
    chosen = stored.sampled(recorded, ONE_IN)
    return [(clause, dtype) for clause, _, dtype in (name.partition(" ") for name in chosen)]


def differing(put: Put) -> Iterator[str]:
    """What differs from the record, and in which case."""
    for clause, dtype in pairs(put):
        exact = not stored.other_machine(CASES["machine"], dtype)  # the arrays are the same everywhere
        key = stored.key_of(put, clause)
        recipes = CASES["recipes"][key]
        now = stored.computed(put, clause, dtype, recipes)
        for recipe, was, is_now in zip(recipes, CASES["digests"][key][dtype], now, strict=True):
            yield from stored.differences(was, is_now, f"{key} {dtype} {recipe}", exact=exact)


@pytest.mark.family(6)
@pytest.mark.parametrize("put", PUTS, ids=lambda put: f"{put.subject} {put.clauses}")
def test_cases_expectations_and_allowances_are_as_recorded(put: Put) -> None:
    assert list(differing(put)) == []


@pytest.mark.family(2)
@pytest.mark.parametrize("put", PUTS, ids=lambda put: f"{put.subject} {put.clauses}")
def test_every_pair_of_clause_and_dtype_is_recorded(put: Put) -> None:
    missing = [f"{clause} {dtype}" for clause, dtype in put.pairs()
               if dtype not in CASES["digests"].get(stored.key_of(put, clause), {})]
    assert missing == [], "record them: see conformance/tests/golden/record.py"


def test_every_clause_is_put_to_a_subject_that_it_applies_to() -> None:
    claimed = {key.partition(" ")[2] for key, found in CASES["digests"].items()
               if any(len(case.split(" ")) == len(stored.PARTS) for cases in found.values() for case in cases)}
    assert set(IDS["clauses"]) - claimed == set()


def test_recipes_are_dealt_and_drawn_as_recorded() -> None:
    known = [] if version("hypothesis") == DRAWS["hypothesis"] else ["hypothesis"]  # another release draws other ones
    wrong = []
    for name in stored.sampled(list(DRAWS["recipes"]), ONE_DEAL_IN):
        was, now = DRAWS["recipes"][name], stored.drawn_by(*name.split(" "))
        wrong += [f"{name}: {key}" for key in was if key not in known and was[key] != now[key]]
    assert wrong == []


@pytest.mark.parametrize("dtype", adapter.dtypes())
def test_bounds_under_other_classes_and_conventions_are_as_recorded(dtype: str) -> None:
    same_machine(dtype)
    makers = stored.bound_makers()
    wrong = [f"{name}, {recipe}" for name in stored.sampled(list(BOUNDS["digests"]), ONE_IN)
             if name.startswith(f"{dtype}, ")
             for recipe, was in zip(BOUNDS["recipes"], BOUNDS["digests"][name], strict=True)
             if makers[name](recipe) != was]
    assert wrong == []


def lost(was: Sequence[str], now: Sequence[str]) -> list[str]:
    """Ids that are gone. New ones may come in."""
    return [name for name in was if name not in set(now)]


def test_clauses_faults_and_subjects_keep_their_ids() -> None:
    assert lost(IDS["clauses"], adapter.clause_ids()) == []
    assert lost(IDS["own"], adapter.own_names()) == []
    assert lost(IDS["subjects"], adapter.subject_ids()) == []


@pytest.mark.family(1)
@pytest.mark.parametrize("effort", IDS["items"])
def test_items_keep_their_ids_and_their_order(effort: str) -> None:
    was = IDS["items"][effort]
    now = stored.items_of(list(was), effort, IDS["clauses"])
    assert {target: now[target] for target in was if now[target] != was[target]} == {}


def test_commands_keep_their_arguments_and_options() -> None:
    now = adapter.commands()
    assert {name: lost(parameters, now.get(name, [])) for name, parameters in COMMANDS.items()
            if lost(parameters, now.get(name, []))} == {}


@pytest.mark.family(4)
@pytest.mark.parametrize("command", EXITS)
def test_commands_keep_their_exit_codes(command: str, tmp_path: Path) -> None:
    assert records.run(shlex.split(command), tmp_path) == EXITS[command]


@pytest.mark.parametrize("name", [
    # that another seed deals what it dealt is shown by the recipes, too
    pytest.param(name, marks=pytest.mark.nightly) if name == "seeded" else name for name in records.RUNS])
def test_a_run_is_recorded_as_it_was(name: str, tmp_path: Path) -> None:
    same_machine()
    code, text = records.record(name, tmp_path)
    was = RUNS["runs"][name]
    assert (code, records.normalised(text)) == (was["exit code"], was["events"])


@pytest.mark.family(1)
@pytest.mark.parametrize("name", PAGES)
def test_an_old_record_makes_the_same_page(name: str, tmp_path: Path) -> None:
    assert records.page(records.OLD / name, tmp_path) == PAGES[name]


def moved(named: Mapping[str, object]) -> dict[str, object]:
    """The same values, but for the last bit of the first number that is rounded."""
    changed = dict(named)
    name = next(name for name, value in named.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"
                and np.isfinite(value).any())
    array = np.array(changed[name])
    at = tuple(axis[0] for axis in np.nonzero(np.isfinite(array)))
    array[at] = np.nextafter(array[at], array.dtype.type(np.inf))
    changed[name] = array
    return changed


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_one_bit_more_changes_the_digest(dtype: str) -> None:
    subject, clause = "numpy/attention", "attention.definition"
    case = adapter.Case(subject, clause, dtype, CASES["recipes"][f"{subject} {clause}"][0])
    for named in (case.arrays(), *case.expectations()):
        assert digests.digest(named) == digests.digest(dict(reversed(list(named.items()))))
        assert digests.digest(moved(named)) != digests.digest(named)


def test_what_differs_is_named() -> None:
    def told(now: str, *, exact: bool = True) -> list[str]:
        return list(stored.differences("a b c d", now, "clause float32 recipe", exact=exact))

    assert told("a b c d") == []
    assert told("a b X d") == ["clause float32 recipe: the allowance differ: X, recorded as c"]
    assert told("X b c d", exact=False) == ["clause float32 recipe: the arrays differ: X, recorded as a"]
    assert told("a X c d", exact=False) == []
    assert told("no claim") == ["clause float32 recipe: 'no claim' where digests were recorded"]


def test_another_machine_is_told_apart() -> None:
    here = stored.machine()
    assert {stored.other_machine(here, dtype) for dtype in adapter.dtypes()} == {""}
    older = {**here, "numpy": "1.0"}
    assert stored.other_machine(older, "float32") == f"numpy is {np.__version__!r} here and was '1.0'"


def test_how_a_processor_rounds_in_long_double_matters_to_float64_alone() -> None:
    other = {**stored.machine(), stored.LONG: "another"}
    assert [dtype for dtype in adapter.dtypes() if stored.other_machine(other, dtype)] == ["float64"]


def test_the_first_case_does_not_depend_on_how_many_follow() -> None:
    fewer, clause = replace(PUTS[0], cases=1), "attention.definition"
    assert fewer.recipes(clause) == PUTS[0].recipes(clause)[:1]
