"""Spoilt specs, manifests, findings and baselines: an error with file and line, or a run that works.

Never a traceback, never a hang, and nothing that `lint` passes breaks a run. ATTNSPEC_FUZZ says how many mutants,
ATTNSPEC_FUZZ_SEED which; a mutant that fails is told with seed, number and text.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextlib import suppress

import pytest
import yaml
from attnspec.core.errors import FileLocation, SpecError
from attnspec.spec import yaml_lines
from attnspec.spec.yaml_lines import parse_yaml
from helpers.fuzzed_files import documents, vocabulary_of
from helpers.fuzzing import ALLOWED, End, Ended, Fuzzer, UntoldError, try_use
from helpers.hostile import RAWS
from helpers.mutants import STRUCTURE, TEXT

MUTANTS = int(os.environ.get("ATTNSPEC_FUZZ", "150"))
SEED = int(os.environ.get("ATTNSPEC_FUZZ_SEED", "0"))
PARTS = 10


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Fuzzer:
    return Fuzzer(documents(tmp_path_factory.mktemp("spoilt")), vocabulary_of, SEED)


@pytest.mark.family(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_spoilt_file_is_told_with_its_line_or_works(fuzzer: Fuzzer, part: int) -> None:
    found = {number: fuzzer.try_mutant(number) for number in range(part, MUTANTS, PARTS)}
    wrong = [fuzzer.describe_mutant(number, each) for number, each in found.items() if each.end not in ALLOWED]
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.nightly
def test_a_mutant_follows_from_seed_and_number(fuzzer: Fuzzer) -> None:
    drawn = [fuzzer.mutant(number)[1] for number in range(400)]
    assert drawn[:20] == [fuzzer.mutant(number)[1] for number in range(20)]
    assert {how for each in drawn for how in each.how} == {*STRUCTURE, *TEXT}


def raising(problem: Exception) -> Callable[[], None]:
    def use() -> None:
        raise problem

    return use


def spin() -> None:
    while True:
        with suppress(Exception):
            math.sqrt(2)


@pytest.mark.parametrize(("use", "end"), [
    (lambda: None, End.WORKS),
    (raising(SpecError("is wrong.", where=FileLocation("spec/causal.yaml", 3))), End.ERROR),
    (raising(SpecError("is wrong.", where=FileLocation("spec/causal.yaml"))), End.NO_PLACE),
    (raising(SpecError("x" * 2000, where=FileLocation("spec/causal.yaml", 3))), End.LONG),
    (raising(UntoldError("not_run")), End.UNTOLD),
    (raising(ValueError("Invalid IPv6 URL")), End.TRACEBACK),
    (raising(RecursionError()), End.TRACEBACK),
    (spin, End.HANG),
], ids=["works", "error", "no place", "long", "untold", "traceback", "recursion", "hang"])
def test_what_is_no_answer_is_found_out(use: Callable[[], None], end: End) -> None:
    assert try_use(use, seconds=1).end is end


def test_a_mutant_that_fails_is_told_with_seed_number_and_text(fuzzer: Fuzzer) -> None:
    _, spoilt = fuzzer.mutant(7)
    told = fuzzer.describe_mutant(7, Ended(End.TRACEBACK, "ValueError"))
    assert told.startswith(f"\nseed {SEED}, number 7: ")
    assert spoilt.data.decode(errors="backslashreplace") in told


@pytest.mark.family(40)
@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("raw", RAWS)
def test_yaml_is_read_or_refused_with_or_without_libyaml(
    parser: str, raw: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(yaml_lines, "_PARSER", getattr(yaml, parser))
    def use() -> None:
        parse_yaml(f"a: 1\nb: {raw}\n".encode(), "x.yaml")

    found = try_use(use)
    assert found.end in ALLOWED, found
    assert found.end is End.WORKS or re.match(r"x\.yaml:[23]: ", found.said)
