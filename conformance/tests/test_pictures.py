"""Pictures of a counterexample: they show the quantity that failed, in the indices of its own array."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attnspec.core.nouns import Effort, Panel
from attnspec.core.plan import Item, Plan
from attnspec.engine.engine import Engine
from attnspec.engine.evidence import PICTURE_LENGTH
from attnspec.record.outcome import Evidence, Picture
from attnspec.report.pictures import make_grid, make_grids

FAR = '''
import numpy as np

def attend(query, key, value):
    logits = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    output = weights / weights.sum(axis=-1, keepdims=True) @ value
    if query.shape[2] >= 40:
        output = output.copy()
        output[-1, -1, 30, 5] += query.dtype.type(0.5)
    return output

attend.dtypes = ["float32"]
'''
FAR_CASE = "B2,H2,Hkv2,T40,S8,D20,Dv20;mask=none;families=normal;seed=1"


def evidence(clause: str, fault: str) -> Evidence:
    """Why a fault violates a clause, at a glance."""
    plan = Plan((f"fault/{fault}",), clauses=(clause,), effort=Effort.GLANCE)
    found = Engine(plan).try_item(Item(f"fault/{fault}", clause, "float32")).evidence
    assert found is not None
    return found


@pytest.fixture
def far(tmp_path: Path) -> Evidence:
    """The evidence on a case of 40 queries by 20 features that goes wrong in one entry."""
    (tmp_path / "far.py").write_text(FAR)
    target = f"{tmp_path / 'far.py'}:attend"
    engine = Engine(Plan((target,), clauses=("attention.definition",), effort=Effort.GLANCE))
    found = engine.replay(Item(target, "attention.definition", "float32"), FAR_CASE).evidence
    assert found is not None
    return found


def panels(found: Evidence) -> tuple[Picture, Picture, Picture]:
    """What was expected, what was seen, and their difference."""
    expected, seen, difference = found.pictures[:3]
    assert (expected.panel, seen.panel, difference.panel) == (Panel.EXPECTED, Panel.SEEN, Panel.DIFFERENCE)
    return expected, seen, difference


def at_worst(picture: Picture) -> float | str:
    """The entry that is outlined."""
    return picture.entries[picture.worst[0] - picture.first[0]][picture.worst[1] - picture.first[1]]


# --- what is drawn

@pytest.mark.family(8)
@pytest.mark.parametrize(("clause", "fault", "expected", "seen", "axes"), [
    ("attention.ones_in_ones_out", "value_odd_feature_lost", "output by definition", "output", ("query", "feature")),
    ("attention.weights_definition", "output_gain_1e3", "weights by definition", "weights", ("query", "key")),
    ("bias.read_out", "bias_rounded_to_bfloat16", "logits (relative to the largest of their row) by definition",
     "logits (relative to the largest of their row)", ("query", "key")),
    ("attention.returned_weights", "report_averaged", "returned weights by definition", "returned weights",
     ("query", "key")),
    ("attention.rows_are_stochastic", "later_calls_halved", "row sums of the weights, which are 1",
     "row sums of the weights", ("head", "query")),
    ("layers.definition", "layer_unscaled", "output by definition", "output", ("query", "model feature")),
    ("attention.batch_is_independent", "softmax_global_maximum", "output of `apart`", "output of `together`",
     ("query", "feature")),
    ("attention.additive_in_values", "stale_output", "output of `original`", "output of `even` + `odd`",
     ("query", "feature")),
    ("attention.homogeneous_in_values", "stale_output", "-2 times the output of `original`", "output of `doubled`",
     ("query", "feature")),
    ("attention.convex_hull", "first_call_wrong", "output, between the least and the greatest visible value", "output",
     ("query", "feature")),
    ("bias.infinity_hides", "bias_clipped_30", "weights by definition", "weights", ("query", "key")),
    ("bias.is_not_ignored", "bias_ignored", "output of `with_it` minus that of `without`, by definition",
     "output of `with_it` minus that of `without`", ("query", "feature")),
    ("causal.prefix_is_truncation", "causal_dropped_when_square", "output of `prefix`", "output of `whole`",
     ("query", "feature")),
    ("layers.switches", "switch_mask_dropped", "output without it", "output with `other_path`",
     ("query", "feature")),
    ("masking.hidden_row_convention", "hidden_row_first_key", "output, zeros in rows that see no key", "output",
     ("query", "feature")),
    ("numerics.typical_error", "bias_rounded_to_bfloat16", "output by definition", "output", ("query", "feature")),
    ("scale.saturation", "inputs_float8", "largest weight of each row of `unscaled`, at least that of `original`",
     "largest weight of each row of `unscaled`", ("head", "query")),
])
def test_the_pictures_are_of_the_quantity_that_failed(
    clause: str, fault: str, expected: str, seen: str, axes: tuple[str, str],
) -> None:
    drawn = panels(evidence(clause, fault))
    assert [picture.name for picture in drawn] == [
        f"expected: {expected}", f"seen: {seen}", "difference: seen − expected"]
    assert {(picture.rows, picture.columns) for picture in drawn} == {axes}
    before, after, apart = (float(at_worst(picture)) for picture in drawn)
    assert apart == pytest.approx(after - before, rel=1e-3, nan_ok=True)


def test_what_compares_no_arrays_has_no_picture() -> None:
    found = evidence("purity.inputs_are_left_alone", "bias_holds_triangle")
    assert (found.pictures, found.caption) == ((), "")


def test_a_large_array_is_cropped_in_its_own_indices(far: Evidence) -> None:
    for picture in panels(far):
        assert (len(picture.entries), len(picture.entries[0])) == (PICTURE_LENGTH, PICTURE_LENGTH)
        assert (picture.first, picture.whole, picture.worst) == ((22, 0), (40, 20), (30, 5))
    assert at_worst(panels(far)[2]) == pytest.approx(0.5, abs=1e-6)
    assert sum(abs(float(entry)) > 1e-3 for row in panels(far)[2].entries for entry in row) == 1


def test_the_outlined_entry_is_the_one_that_was_measured(far: Evidence) -> None:
    expected, seen, _ = panels(far)
    assert far.measured is not None
    assert far.measured.index == (1, 1, 30, 5)
    assert at_worst(seen) == pytest.approx(far.measured.seen, rel=1e-5)
    assert at_worst(expected) == pytest.approx(far.measured.expected, rel=1e-5)


def test_the_caption_names_batch_head_worst_entry_and_region(far: Evidence) -> None:
    assert far.caption == ("Output, batch 1, head 1. The worst entry, outlined, is query 30, feature 5. "
                                "Wrong: column 5 of row 30 of the last head of the last batch entry.")


def test_a_row_that_is_compared_alone_keeps_its_index() -> None:
    found = evidence("window.outside_is_irrelevant", "window_dropped_with_softcap")
    expected, _, _ = panels(found)
    assert found.measured is not None
    assert found.measured.index[2] == expected.first[0] == expected.worst[0] > 0
    assert f"worst at {found.measured.index}" in found.sentence
    assert f"is query {expected.worst[0]}, " in found.caption
    assert len(expected.entries) == 1


def test_what_fails_small_is_drawn_where_there_is_room() -> None:
    found = evidence("attention.weights_definition", "output_gain_1e3")
    assert found.case.startswith("B=1 H=1 Hkv=1 T=1 S=1")
    assert panels(found)[0].whole == (6, 6)
    assert found.caption.startswith(
        "Drawn at B=2 H=2 Hkv=2 T=6 S=6 D=6 Dv=6, where more is seen than in the case above. Weights, batch ")


# --- masks

def test_masked_and_unjudged_entries_are_marked_by_query_and_key() -> None:
    for picture in panels(evidence("bias.infinity_hides", "bias_clipped_30")):
        marks = "".join(picture.marks)
        assert set(marks) == {"x", "u"}  # masked entries alone are judged
        assert len(marks) == sum(map(len, picture.entries))
    expected, seen, _ = panels(evidence("bias.infinity_hides", "bias_clipped_30"))
    masked = [(row, column) for row, line in enumerate(expected.marks) for column, mark in enumerate(line)
              if mark == "x"]
    assert all(expected.entries[row][column] == 0 for row, column in masked)
    assert any(seen.entries[row][column] != 0 for row, column in masked)


def test_where_an_output_fails_under_a_mask_the_mask_is_beside_it() -> None:
    found = evidence("causal.prefix_is_truncation", "causal_dropped_when_square")
    [beside] = found.pictures[3:]
    assert beside.panel is Panel.BESIDE
    assert beside.name.endswith("with the mask")
    assert (beside.rows, beside.columns) == ("query", "key")
    size = len(beside.marks)
    assert beside.marks == tuple("." * (row + 1) + "x" * (size - row - 1) for row in range(size))


def test_where_the_output_of_a_layer_fails_the_causal_mask_is_beside_it() -> None:
    target, clause = "fault/layer_causal_ignored", "layers.biases"
    case = "B1,H1,Hkv1,T1,S2,D1,Dv1;mask=none;families=integers;with=causal;M=4;inputs=separate;seed=0"
    engine = Engine(Plan((target,), clauses=(clause,), effort=Effort.GLANCE))
    found = engine.replay(Item(target, clause, "float32"), case).evidence
    assert found is not None
    [beside] = found.pictures[3:]
    size = len(beside.marks)
    assert beside.marks == tuple("." * (row + 1) + "x" * (size - row - 1) for row in range(size))


def test_where_nothing_is_masked_no_mask_is_drawn() -> None:
    found = evidence("attention.weights_definition", "output_gain_1e3")
    assert len(found.pictures) == 3
    assert not any(picture.marks for picture in found.pictures)


# --- on the page

CROPPED = Picture("seen: weights", "query", "key", ((0.0, 1.0, 0.5), (0.25, 3.0, 0.0)), Panel.SEEN, (57, 120),
                  (90, 200), (58, 121), ("..x", "u.."))


def test_expected_and_seen_share_one_scale() -> None:
    expected, seen, difference = make_grids((
        Picture("expected: output", "query", "feature", ((-1.0, 0.0),), Panel.EXPECTED),
        Picture("seen: output", "query", "feature", ((0.0, 7.0),), Panel.SEEN),
        Picture("difference: seen − expected", "query", "feature", ((1.0, 7.0),), Panel.DIFFERENCE)))
    assert (expected.low, expected.high) == (seen.low, seen.high) == ("−1", "7")
    assert expected.cells[1].css == seen.cells[0].css == "s1"
    assert (expected.is_diverging, seen.is_diverging, difference.is_diverging) == (False, False, True)
    assert (difference.low, difference.high) == ("−7", "7")


def test_where_nothing_is_finite_the_shared_scale_is_empty() -> None:
    [drawn] = make_grids((Picture("seen: output", "query", "feature", (("nan", "inf"),), Panel.SEEN),))
    assert (drawn.low, drawn.high, [cell.css for cell in drawn.cells]) == ("0", "0", ["nan", "inf"])


def test_ticks_and_titles_count_in_the_indices_of_the_array() -> None:
    drawn = make_grid(CROPPED)
    assert [(tick.index, tick.is_worst) for tick in drawn.row_ticks] == [(57, False), (58, True)]
    assert [(tick.index, tick.is_worst) for tick in drawn.column_ticks] == [(120, False), (121, True), (122, False)]
    assert drawn.cells[0].title == "(57, 120) = 0"
    assert drawn.crop_text == "2 × 3 of 90 × 200 entries"


def test_the_worst_entry_and_marks_are_drawn_and_named() -> None:
    drawn = make_grid(CROPPED)
    assert [(cell.overlay_css, cell.title) for cell in drawn.cells if cell.overlay_css] == [
        ("masked", "(57, 122) = 0.5, masked"), ("worst", "(58, 121) = 3, the worst entry")]
    assert drawn.legend == (("worst", "the worst entry"), ("masked", "masked"))
    assert drawn.says == ("query 57 to 58 down, key 120 to 122 across; colours from 0 to 3. "
                          "The worst entry, outlined, is at 58, 121.")


def test_a_difference_that_is_not_judged_has_no_colour() -> None:
    drawn = make_grid(replace(CROPPED, panel=Panel.DIFFERENCE)).cells[3]
    assert (drawn.css, drawn.text, drawn.overlay_css) == ("z", "", "unjudged")
    assert drawn.title == "(58, 120) = 0.25, not judged by this clause"


def test_the_index_of_the_worst_entry_is_written_among_small_cells() -> None:
    wide = Picture("seen: output", "query", "feature", ((0.5,) * 16,), Panel.SEEN, (0, 100), (1, 300), (0, 109))
    assert [tick.index for tick in make_grid(wide).column_ticks] == [100, 104, 109, 112]


@pytest.mark.parametrize("odd", [
    {"first": (1,)}, {"first": (1, 2, 3)}, {"whole": (7,)}, {"worst": (1,)}, {"worst": (-5, 10**17)},
    {"marks": ("x",)}, {"marks": ("?" * 99,) * 9}])
def test_fields_of_a_foreign_picture_may_be_odd(odd: dict[str, tuple[int, ...]]) -> None:
    assert len(make_grid(replace(CROPPED, **odd)).cells) == 6  # type: ignore[arg-type]  # fields of a picture
