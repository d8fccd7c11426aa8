"""Sixty implementations that want to be acquitted without computing attention: none of them is.

Each file in `cheats/` says its trick, where it has been seen, and what convicts or refuses it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.nouns import Effort, Verdict
from attnspec.record.outcome import Outcome
from attnspec.record.read import read_record
from attnspec.runner.jobs import exit_code
from helpers.places import TESTS

CHEATS = TESTS / "cheats"
LEAST = 60
MOST_OF_THEM = "attention.definition"
CONVICTED = re.compile(r"^Convicted by: (?P<clause>[a-z_.]+)(?P<other> or another)?, (?P<verdict>\w+)"
                       r"(?P<quick>, at effort quick)?\.$", re.MULTILINE)
REFUSED = re.compile(r"^Refused: (?P<words>.+)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cheat:
    """clause, verdict: what convicts it, and how; another clause may, where that hangs on how memory falls.
    words: why it is refused, where it is.
    """

    name: str
    clause: str
    verdict: Verdict | None
    words: str
    effort: Effort = Effort.GLANCE
    or_another: bool = False

    @classmethod
    def read(cls, path: Path) -> Cheat:
        text = path.read_text(encoding="utf-8")
        if found := CONVICTED.search(text):
            effort = Effort.QUICK if found["quick"] else Effort.GLANCE
            return cls(path.stem, found["clause"], Verdict(found["verdict"]), "", effort, bool(found["other"]))
        refused = REFUSED.search(text)
        assert refused, f"{path.name} does not say what convicts or refuses it"
        return cls(path.stem, MOST_OF_THEM, None, refused["words"])


ALL = [Cheat.read(path) for path in sorted(CHEATS.glob("*.py")) if path.stem != "honest"]
HERE = [cheat for cheat in ALL if find_spec("torch") or "torch" not in (CHEATS / f"{cheat.name}.py").read_text("utf-8")]


def judged(folder: Path, cheats: Sequence[Cheat]) -> Mapping[str, list[Outcome]]:
    """The outcomes of a run of the command, as its user would run it, by the cheat's name."""
    record = folder / "run.jsonl"
    targets = [f"{CHEATS / cheat.name}.py:attend" for cheat in cheats]
    clauses = [word for clause in sorted({cheat.clause for cheat in cheats}) for word in ("--clause", clause)]
    words = ["--effort", cheats[0].effort.value, "--dtype", "float32", "-n", "1", "--record", str(record)]
    main(["check", *targets, *clauses, *words])
    found: dict[str, list[Outcome]] = {cheat.name: [] for cheat in cheats}
    for outcome in read_record(record).outcomes:
        found[Path(outcome.subject.rpartition(":")[0]).stem].append(outcome)
    return found


def group(cheat: Cheat) -> tuple[str, bool]:
    """What is judged in one run: those that the definition convicts at a glance, other clauses, and a closer look."""
    return cheat.effort.value, cheat.clause == MOST_OF_THEM


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Outcome]]:
    """What became of each that a test asks for, in a few runs."""
    asked = {item.callspec.params.get("cheat") for item in request.session.items
             if isinstance(item, pytest.Function) and hasattr(item, "callspec") and item.path == request.path}
    found: dict[str, list[Outcome]] = {}
    for _, cheats in itertools.groupby(sorted(filter(asked.__contains__, HERE), key=group), key=group):
        found.update(judged(tmp_path_factory.mktemp("run"), list(cheats)))
    return found


def test_there_are_cheats_enough() -> None:
    assert len(ALL) >= LEAST


@pytest.mark.family(1)
@pytest.mark.parametrize("cheat", HERE, ids=lambda cheat: cheat.name)
def test_no_cheat_is_acquitted(cheat: Cheat, outcomes: Mapping[str, list[Outcome]]) -> None:
    found = outcomes[cheat.name]
    assert found
    assert exit_code(found, strict=False, interrupted=False) != 0


@pytest.mark.family(4)
@pytest.mark.parametrize("cheat", [cheat for cheat in HERE if cheat.verdict], ids=lambda cheat: cheat.name)
def test_a_cheat_is_convicted_by_what_its_file_says(cheat: Cheat, outcomes: Mapping[str, list[Outcome]]) -> None:
    found = [each for each in outcomes[cheat.name] if cheat.or_another or each.clause == cheat.clause]
    assert cheat.verdict in {outcome.verdict for outcome in found}, found[0].reason


@pytest.mark.family(3)
@pytest.mark.parametrize("cheat", [cheat for cheat in HERE if not cheat.verdict], ids=lambda cheat: cheat.name)
def test_a_cheat_is_refused_in_the_words_of_its_file(cheat: Cheat, outcomes: Mapping[str, list[Outcome]]) -> None:
    [outcome] = outcomes[cheat.name]
    assert outcome.verdict is Verdict.NOT_RUN
    assert cheat.words in outcome.reason
