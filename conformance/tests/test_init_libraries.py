"""The table of attention classes of libraries that `init` is tried on, and in which line of it each counts."""

from __future__ import annotations

import pytest
from init_libraries import Tried, outcome_of, table_of
from library_classes import CLASSES, LibraryClass, Truth

RIGHT = LibraryClass("theirs.layers:Attention", "theirs")
OTHER = LibraryClass("theirs.layers:Mixed", "theirs", Truth.OTHER, "heads are mixed")
WRONG = LibraryClass("theirs.layers:Unscaled", "theirs", fails="the logits are not scaled")


def test_the_table_has_sixty_classes_and_each_once() -> None:
    assert len({row.target for row in CLASSES}) == len(CLASSES) >= 60


def test_what_is_no_attention_or_fails_says_why() -> None:
    assert all(row.says for row in CLASSES if row.truth is not Truth.ATTENTION)


@pytest.mark.parametrize(("row", "ended", "more", "outcome"), [
    (RIGHT, (0, 0), {}, "conforms"), (RIGHT, (0, 0), {"said": ("NOT TRIED: p.",)}, "conforms, in part"),
    (RIGHT, (0, 1), {}, "WRONG"), (WRONG, (0, 1), {}, "fails"), (OTHER, (0, 0), {}, "WRONG"),
    (OTHER, (2, 0), {}, "refused"), (RIGHT, (2, 0), {"has_crashed": True}, "crash"),
    (RIGHT, (0, 124), {}, "timeout"), (RIGHT, (0, 2), {}, "not judged")])
def test_a_verdict_counts_by_what_is_true(row: LibraryClass, ended: tuple[int, int], more: dict[str, tuple[str, ...]],
                                          outcome: str) -> None:
    assert outcome_of(row, Tried(row.target, "1.0", ended, (1.0, 1.0), **more)) == outcome  # type: ignore[arg-type]  # by name


def test_the_table_has_a_row_for_each_class_that_was_tried() -> None:
    row = CLASSES[0]
    lines = [*table_of({row.target: Tried(row.target, "1.0", (0, 0), (1.0, 2.0), first="Conforms.")})]
    assert lines[0] == "1 classes: 1 conforms"
    assert lines[-1].startswith(f"| `{row.target}` | {row.distribution} 1.0 | attention | conforms | Conforms. |")
