"""What real attentions got wrong has its fault, or a reason why not; what faults link to is what they do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import reach
from attnspec.core.nouns import Level
from attnspec.faults.catalogue import ALL, CATALOGUE, FIXED, mechanisms
from attnspec.faults.fault import Outside
from attnspec.faults.mechanisms import (
    BUGS,
    THREADS,
    family_table,
    faults_of,
    link_of,
    reasons_without_fault,
    size_threads,
)
from attnspec.faults.sizes.families import FAMILIES
from attnspec.spec.load import load_spec
from helpers.places import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "faults.md"
BEYOND = {"wrong value (unspecified)": Outside.UNTOLD}


@pytest.mark.parametrize("mechanism", sorted(set(BUGS) - set(BEYOND)))
def test_every_class_of_real_mistakes_is_made_by_a_fault(mechanism: str) -> None:
    assert faults_of(mechanism) != ()
    assert set(faults_of(mechanism)) <= set(CATALOGUE)


@pytest.mark.parametrize(("mechanism", "reason"), BEYOND.items())
def test_a_class_beyond_the_contract_says_why(mechanism: str, reason: Outside) -> None:
    assert faults_of(mechanism) == ()
    assert reasons_without_fault(mechanism) == (reason,)


def test_a_mistake_left_out_has_one_reason_of_those_in_use() -> None:
    assert {reason for mechanism in BUGS for reason in reasons_without_fault(mechanism)} == set(Outside)


def test_a_fault_links_to_a_mistake_that_it_makes() -> None:
    made = {thread: () if isinstance(faults, Outside) else faults
            for bugs in BUGS.values() for thread, faults in bugs.items()}
    linked = {fault.name: fault.link for fault in FIXED if fault.link.startswith("https://github.com/")}
    assert {name: link for name, link in linked.items() if name not in made.get(link, ())} == {}
    assert {name for names in made.values() for name in names if not CATALOGUE[name].link} == set()


def test_no_thread_is_listed_twice() -> None:
    threads = [thread for bugs in BUGS.values() for thread in bugs]
    assert len(threads) == len(set(threads)) == 228
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", thread) for thread in threads)


def test_the_documentation_shows_the_table() -> None:
    assert mechanisms() in DOCUMENT.read_text(encoding="utf-8")


def test_the_page_of_reach_is_the_one_that_is_generated() -> None:
    assert (CHECKOUT / "docs" / "reach.md").read_text(encoding="utf-8") == reach.generate_page()


def test_nine_in_ten_mistakes_that_need_no_gradient_are_found() -> None:
    told = [thread for thread in reach.threads(load_spec()) if thread.came not in reach.NEEDS.values()]
    mistakes = [thread for thread in told if thread.came not in {why.value for why in reach.NO_MISTAKE}]
    assert sum(thread.came == reach.FOUND for thread in mistakes) >= 0.9 * len(mistakes)


def test_a_fault_that_no_clause_detects_leaves_its_thread_unfound() -> None:
    law = load_spec()
    blind = replace(law, clauses=tuple(replace(clause, level=Level.SHOULD) for clause in law.clauses))
    assert {thread.came == reach.FOUND for thread in reach.threads(blind)} == {False}


# --- at certain sizes only

def test_threads_name_faults_that_there_are_and_each_thread_is_told_once() -> None:
    named = {name for thread in THREADS if not isinstance(thread.faults, Outside) for name in thread.faults}
    assert named <= set(CATALOGUE)
    links = [thread.link for thread in THREADS]
    assert len(set(links)) == len(links) == 57
    assert set(links).isdisjoint(link for bugs in BUGS.values() for link in bugs)
    assert sum(not isinstance(thread.faults, Outside) for thread in THREADS) == 38


def test_a_family_links_to_a_thread_that_tells_its_mechanism() -> None:
    told = {name: thread.link for thread in reversed(THREADS)
            if thread.is_told and not isinstance(thread.faults, Outside) for name in thread.faults}
    assert {fault.name: fault.link for fault in ALL if fault.planted and fault.link} == {
        name: link for name, link in told.items() if name in FAMILIES}
    assert link_of("size_groups_rounded_up") == ""


def test_the_documentation_shows_families_and_threads() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert family_table() in text
    assert size_threads() in text
