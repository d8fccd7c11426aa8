"""The table of layers and kernels that `init` is tried on: each is right, or has one mistake."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from init_table import Tried, lost_parameters, parameters_of, source_of, table_of
from layers_by_hand.rows import ROWS, Row

ROW = Row("torch_functions:attention_with_padding", "", "dim=-1", "dim=0", "softmax over the batch", "batch")
ADAPTER = """
def attend(query, key, value):
    return attention_with_padding(query, key, value{further})
"""


def test_the_table_has_sixty_targets_and_each_once() -> None:
    assert len({row.target for row in ROWS}) == len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.target)
def test_a_mistake_changes_one_line_and_leaves_python(row: Row) -> None:
    right, wrong = (source_of(row, half).splitlines() for half in ("right", "wrong"))
    assert sum(one != other for one, other in zip(right, wrong, strict=True)) == 1
    ast.parse("\n".join(wrong))


def test_an_exchange_that_is_not_clear_is_refused() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        source_of(replace(ROW, right="nowhere"), "wrong")


@pytest.mark.parametrize(("further", "said", "lost"), [
    ("", "", ("key_mask",)), ("", "note: Its key_mask could not be used.", ()), (", key_mask=mask", "", ())])
def test_a_parameter_is_lost_that_is_neither_passed_nor_named(further: str, said: str, lost: tuple[str, ...]) -> None:
    source = source_of(ROW, "right")
    assert parameters_of(ROW, source) == ("q", "k", "v", "key_mask")
    assert lost_parameters(ROW, source, ADAPTER.format(further=further), said) == lost


def test_a_conviction_counts_if_its_cause_is_named_and_nothing_is_lost() -> None:
    named = Tried(ROWS[0].target, "wrong", "violated, cause named", 1, 2, "check x", causes=("like: a | b",))
    assert named.is_right
    for other in ({"verdict": "violated, no cause"}, {"lost": ("mask",)}, {"half": "right"}):
        assert not replace(named, **other).is_right
    lines = list(table_of({(named.target, "wrong"): named}))
    assert lines[1] == "- wrong: 1 of 1 verdicts are right; 1 violated, cause named"
    assert "like: a \\| b" in lines[-1]
