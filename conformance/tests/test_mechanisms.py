"""What real attentions got wrong has its fault, or a reason why not; what faults link to is what they do."""

from __future__ import annotations

import re

import pytest
from attnspec.faults.catalogue import CATALOGUE, FIXED, mechanisms
from attnspec.faults.mechanisms import BUGS, Outside, faults_of, outside
from helpers.places import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "faults.md"
BEYOND = {"position ids": Outside.POSITIONS, "wrong value (unspecified)": Outside.UNTOLD}


@pytest.mark.parametrize("mechanism", sorted(set(BUGS) - set(BEYOND)))
def test_every_class_of_real_mistakes_is_made_by_a_fault(mechanism: str) -> None:
    assert faults_of(mechanism) != ()
    assert set(faults_of(mechanism)) <= set(CATALOGUE)


@pytest.mark.parametrize(("mechanism", "reason"), BEYOND.items())
def test_a_class_beyond_the_contract_says_why(mechanism: str, reason: Outside) -> None:
    assert faults_of(mechanism) == ()
    assert outside(mechanism) == (reason,)


def test_a_mistake_left_out_has_one_reason_of_those_in_use() -> None:
    assert {reason for mechanism in BUGS for reason in outside(mechanism)} == set(Outside)


def test_a_fault_links_to_a_mistake_that_it_makes() -> None:
    made = {thread: () if isinstance(faults, Outside) else faults
            for bugs in BUGS.values() for thread, faults in bugs.items()}
    linked = {fault.name: fault.link for fault in FIXED if fault.link.startswith("https://github.com/")}
    assert {name: link for name, link in linked.items() if name not in made.get(link, ())} == {}


def test_no_thread_is_listed_twice() -> None:
    threads = [thread for bugs in BUGS.values() for thread in bugs]
    assert len(threads) == len(set(threads)) == 183
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", thread) for thread in threads)


def test_the_documentation_shows_the_table() -> None:
    assert mechanisms() in DOCUMENT.read_text(encoding="utf-8")
