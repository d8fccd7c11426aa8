"""The record of subjects that take or store codes, and how their conventions are found by calling them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.nouns import DType
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from quantised_conventions import find_conventions, name_shared
from quantised_subjects import Judged, makes_codes, read_judged, show_table

CHECKOUT = Path(__file__).parents[2]
RECORD = CHECKOUT / "reports" / "quantised" / "subjects.jsonl"
PAGE = CHECKOUT / "docs" / "quantised-subjects.md"

FIRST: Mapping[str, tuple[slice, ...]] = {
    "batch entry": (slice(1),), "head": np.s_[:, :1], "head of an entry": np.s_[:1, :1], "token": np.s_[:1, :1, :1],
    "3 tokens": np.s_[:1, :1, :3], "channel": np.s_[:, :1, :, :1], "4 features": np.s_[:1, :1, :1, :4],
    "3 tokens of a feature": np.s_[:1, :1, :3, :1]}


@pytest.mark.parametrize("name", FIRST)
def test_who_shares_a_scale_is_named_by_what_moved(name: str) -> None:
    moved = np.zeros((2, 2, 5, 8), bool)
    moved[FIRST[name]] = True
    assert name_shared(moved) == name


def test_a_scale_of_all_and_of_none_have_names() -> None:
    assert name_shared(np.ones((2, 2, 5, 8), bool)) == "tensor"
    assert name_shared(np.zeros((2, 2, 5, 8), bool)) == "ignored"
    assert name_shared(np.arange(5)[:, None] * np.ones((2, 2, 1, 8)) < 4, page=4) != "page"


@pytest.mark.parametrize(("subject", "question", "answer"), [
    ("numpy/quantised_int8_by_head", "key scale shared by", "head"),
    ("numpy/quantised_int8_by_head", "value scale multiplied", "behind the products"),
    ("numpy/quantised_paged_int8_by_page", "value scale shared by", "page"),
    ("numpy/quantised_uint4_in_groups", "key scale shared by", "32 tokens of a feature"),
    ("numpy/quantised_uint4_in_groups", "zero points", "taken off, as codes"),
    ("numpy/quantised_e4m3_by_block", "hidden NaN key", "harmless")])
def test_conventions_are_found_by_calling_a_subject(subject: str, question: str, answer: str) -> None:
    assert find_conventions(load_subject(subject, Plan((subject,))), DType.FLOAT32)[question] == answer


@pytest.mark.parametrize(("subject", "shared"), [
    ("torch/quantised_packed_e4m3_by_sequence", "head of an entry"), ("torch/quantised_packed_int8_by_token", "token"),
    ("torch/quantised_paged_e4m3_by_head", "head"), ("torch/quantised_paged_int8_by_page", "page")])
def test_packed_and_paged_codes_in_pytorch_have_the_scales_they_declare(subject: str, shared: str) -> None:
    pytest.importorskip("torch")
    found = find_conventions(load_subject(subject, Plan((subject,))), DType.FLOAT32)
    assert found["key scale shared by"] == found["value scale shared by"] == shared


def test_the_record_has_twelve_subjects_of_six_libraries() -> None:
    rows = read_judged(RECORD)
    assert len(rows) >= 12
    assert len({name.partition("/")[0] for name in rows}) >= 6
    assert all(row.ended in (0, 1) and row.conventions and all(row.versions.values()) for row in rows.values())


def test_the_page_has_the_tables_of_the_record() -> None:
    rows = read_judged(RECORD)
    page = PAGE.read_text()
    assert all(each in page for each in show_table([rows[name] for name in sorted(rows)]).split("\n\n"))


def test_a_subject_that_makes_codes_stands_in_the_second_table() -> None:
    handed, made = (Judged("a/b", "B", {"a": "1"}, {"key": stored, "value": stored}, 0, "Conforms.", "", "", 1.0,
                           {"zero points": "none"}) for stored in ("int8 by head", "int8 by token, made inside"))
    assert (makes_codes(handed), makes_codes(made)) == (False, True)
    first, second = show_table([made, handed]).split("\n\n")
    assert "int8 by head" in first
    assert "int8 by token |" in second
