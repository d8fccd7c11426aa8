"""A library may ask for an environment variable that must stand before it is imported: its workers are born with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli.check import smoke_inputs
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.runner.session import Session
from attnspec.subjects.registry import load_target, process_of

MANIFEST = """
library: Choosy
subjects:
  - {id: one, title: One, function: adapter:attend, process: {CHOOSY_BACKEND: one}}
  - {id: two, title: Two, function: adapter:attend, process: {CHOOSY_BACKEND: two}}
  - {id: any, title: Any, function: adapter:attend_anywhere}
"""
ADAPTER = """
import os
import numpy as np

BACKEND = os.environ.get("CHOOSY_BACKEND")  # once, at import

def attend_anywhere(query, key, value):
    assert BACKEND is None
    return np.zeros((*query.shape[:3], value.shape[3]), query.dtype)

def attend(query, key, value):
    if BACKEND not in ("one", "two"):
        raise RuntimeError(f"no backend {BACKEND}")
    return np.full((*query.shape[:3], value.shape[3]), BACKEND == "two", query.dtype)
"""


@pytest.fixture
def choosy(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "choosy").mkdir()
    (tmp_path / "choosy" / "manifest.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "choosy" / "adapter.py").write_text(ADAPTER, encoding="utf-8")
    return (str(tmp_path),)


def test_each_subject_is_judged_in_the_process_that_its_manifest_asks_for(choosy: tuple[str, ...]) -> None:
    targets = ("choosy/one", "choosy/any", "choosy/two")
    plan = Plan(targets, clauses=("attention.shape",), dtypes=(DType.FLOAT32,), implementations=choosy)
    result = Session(plan).run([])
    assert {outcome.subject: outcome.verdict.value for outcome in result.outcomes} == dict.fromkeys(targets, "held")


def test_smoke_runs_in_that_process_too(choosy: tuple[str, ...]) -> None:
    lines = smoke_inputs("choosy/one", Plan((), implementations=choosy))
    assert not any("no backend" in line.detail for line in lines)


def test_a_subject_of_another_process_is_refused(choosy: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    begins = "choosy/one is judged in a process that begins with CHOOSY_BACKEND=one; here it is "
    with pytest.raises(TargetError, match=begins + "not set."):
        load_target("choosy/one", folders=choosy)
    monkeypatch.setenv("CHOOSY_BACKEND", "two")
    with pytest.raises(TargetError, match=begins + "'two'."):
        load_target("choosy/one", folders=choosy)


def test_flags_may_stand_beside_those_that_are_asked_for(
    choosy: tuple[str, ...], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHOOSY_BACKEND", "--mine one")
    assert load_target("choosy/one", folders=choosy).id == "choosy/one"


def test_what_asks_for_nothing_has_ordinary_surroundings(choosy: tuple[str, ...]) -> None:
    assert not process_of("choosy/any", choosy)
    assert not process_of("my.module:attend", choosy)


def faster(folder: Path, where: str, own: str = "") -> dict[str, str]:
    """What the process of a subject begins with, whose library is faster with SPEED set where this is installed."""
    (folder / "quick").mkdir()
    (folder / "quick" / "adapter.py").write_text(ADAPTER, encoding="utf-8")
    (folder / "quick" / "manifest.yaml").write_text(
        f"library: Quick\nfaster_with: {{where: '{where}', variables: {{SPEED: full}}}}\nsubjects:\n"
        f"  - {{id: one, title: One, function: adapter:attend_anywhere{own}}}\n", encoding="utf-8")
    assert load_target("quick/one", folders=(str(folder),)).id == "quick/one"  # here SPEED is not set: it is no demand
    return dict(process_of("quick/one", (str(folder),)))


def test_what_makes_a_library_faster_is_set_where_the_requirement_is_met(tmp_path: Path) -> None:
    assert faster(tmp_path, "numpy>=1") == {"SPEED": "full"}


@pytest.mark.parametrize("where", ["numpy<1", "no-such-distribution", "no-such-distribution>=2"])
def test_what_makes_a_library_faster_is_left_out_without_its_requirement(tmp_path: Path, where: str) -> None:
    assert faster(tmp_path, where) == {}


def test_a_subject_may_do_without_what_makes_its_library_faster(tmp_path: Path) -> None:
    assert faster(tmp_path, "numpy>=1", ", faster_with: {}") == {}
