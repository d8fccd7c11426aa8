"""Spoilt specs, manifests, findings and baselines: an error with file and line, or a run that works.

Never a traceback, never a hang, and nothing that `lint` passes breaks a run. ATTNSPEC_FUZZ says how many mutants,
ATTNSPEC_FUZZ_SEED which; a mutant that fails is told with seed, number and text.
"""

from __future__ import annotations

import os

import pytest
from helpers.fuzzed_files import documents, known
from helpers.fuzzing import ALLOWED, Fuzzer

MUTANTS = int(os.environ.get("ATTNSPEC_FUZZ", "150"))
SEED = int(os.environ.get("ATTNSPEC_FUZZ_SEED", "0"))
PARTS = 10


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Fuzzer:
    return Fuzzer(documents(tmp_path_factory.mktemp("spoilt")), known, SEED)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_spoilt_file_is_told_with_its_line_or_works(fuzzer: Fuzzer, part: int) -> None:
    found = {number: fuzzer.put(number) for number in range(part, MUTANTS, PARTS)}
    wrong = [fuzzer.told(number, each) for number, each in found.items() if each.end not in ALLOWED]
    assert not wrong, "\n".join(wrong[:5])
