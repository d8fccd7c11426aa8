"""Codes of four bits, two to a byte: the layout is the declared one, and what bytes cannot tell is not asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised.arrays import hand_over, in_storage, pack_nibbles
from attnspec.aspects.quantised.keyword import even_axes
from attnspec.aspects.quantised.nibble_faults import NIBBLE_FAULTS
from attnspec.aspects.quantised.storage import LAYOUTS
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe
from helpers.codes import SOUND, calls_of, departs
from helpers.commands import Cli

NIBBLES = np.arange(1, 7, dtype=np.uint8).reshape(1, 1, 2, 3)


@pytest.mark.parametrize(("layout", "expected"), [
    ("low_first", [[0x21, 0x03], [0x54, 0x06]]), ("high_first", [[0x12, 0x30], [0x45, 0x60]]),
    ("low_first_tokens", [[0x41, 0x52, 0x63]]), ("high_first_tokens", [[0x14, 0x25, 0x36]]),
    ("halves", [[0x31, 0x02], [0x64, 0x05]])])
def test_each_layout_puts_two_codes_into_a_byte(layout: str, expected: list[list[int]]) -> None:
    np.testing.assert_array_equal(pack_nibbles(NIBBLES, layout)[0, 0], expected)
    assert layout in LAYOUTS


@pytest.mark.parametrize(("storage", "codes", "expected"), [
    ("int4", [-8, 7, -1, 0], [0x78, 0x0F]), ("uint4", [15, 8, 0, 1], [0x8F, 0x10]),
    ("mxfp4", [0.5, -6, -0.0, 6], [0xF1, 0x78])])
def test_bits_of_codes_are_those_of_their_type(storage: str, codes: list[float], expected: list[int]) -> None:
    bytes_ = in_storage(np.array(codes).reshape(1, 1, 1, 4), storage, "low_first")
    assert bytes_.dtype == np.uint8
    np.testing.assert_array_equal(bytes_.ravel(), expected)


def test_a_subject_is_handed_bytes() -> None:
    recipe = "B1,H2,Hkv2,T3,S5,D6,Dv4;mask=none;families=normal;with=key_scale;key_scale=int4/head/odd;seed=1"
    problem = make_problem(Recipe.parse(recipe), DType.FLOAT32)
    limits = Limits(stored_key="int4", packed_key="low_first", key_scales="head")
    arrays, _ = hand_over({"query": problem.query, "key": problem.key}, {"key_scale": problem.key_scale}, limits)
    assert (arrays["key"].dtype.name, arrays["key"].shape) == ("uint8", (1, 2, 5, 3))
    assert arrays["query"].dtype.name == "float32"


@pytest.mark.parametrize(("limits", "axes"), [
    (Limits(packed_key="low_first"), ()), (Limits(packed_value="low_first"), ("Dv",)),
    (Limits(packed_query="halves", packed_key="halves"), ("D",)), (Limits(packed_key="low_first_tokens"), ()),
    (Limits(packed_key="low_first_tokens", packed_value="high_first_tokens"), ("S",)),
    (Limits(packed_query="high_first_tokens"), ("T",))])
def test_lengths_that_bytes_do_not_tell_are_even(limits: Limits, axes: tuple[str, ...]) -> None:
    assert even_axes(limits) == axes
    assert [str(refusal) for refusal in limits.all_refusals] == [f"{axis} % 2 ≠ 0" for axis in axes]


def calls(fault: Fault) -> Iterator[Problem]:
    """Problems of four bits with odd and even widths, and of eight bits, which no nibble holds."""
    return calls_of(fault, ("int4", "uint4", "int8"), ("head", "token", "channel"),
                    ("B2,H4,Hkv2,T5,S7,D6,Dv4", "B1,H2,Hkv2,T1,S7,D5,Dv3"))


@pytest.mark.parametrize("fault", NIBBLE_FAULTS, ids=lambda fault: fault.name)
def test_each_fault_of_nibbles_departs_beyond_rounding(fault: Fault) -> None:
    attend = fault.function
    assert any(departs(attend, problem) for problem in calls(fault))


@pytest.mark.parametrize("formulation", SOUND, ids=lambda each: each.name)
def test_right_formulations_of_nibbles_stay_within_rounding(formulation: SoundFormulation) -> None:
    attend = formulation.make()
    assert not any(departs(attend, problem) for problem in calls(NIBBLE_FAULTS[-1]))


CODES = '''
import numpy as np

def attend(query, key, value, key_scale=None, value_scale=None):
    def heads(bytes_, scale, width):
        nibbles = np.stack([{0}], axis=-1).reshape(*bytes_.shape[:-1], -1)[..., :width]
        numbers = np.where(nibbles >= 8, nibbles.astype(np.float32) - 16, nibbles).astype(np.float32)
        numbers = numbers if scale is None else numbers * scale[:, None, None]
        return np.repeat(numbers, query.shape[1] // bytes_.shape[1], axis=1)

    keys, values = heads(key, key_scale, query.shape[-1]), heads(value, value_scale, 2 * value.shape[-1])
    logits = query @ keys.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ values).astype(np.float32)

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "{1}"
attend.packed_key = attend.packed_value = "low_first"
attend.key_scales = attend.value_scales = "head"
'''
LOW_FIRST, HIGH_FIRST = "bytes_ & 15, bytes_ >> 4", "bytes_ >> 4, bytes_ & 15"


def test_a_function_of_packed_codes_conforms(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format(LOW_FIRST, "int4"), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 0, out


def test_nibbles_in_the_wrong_order_are_named(cli: Cli, tmp_path: Path) -> None:
    right = "heads(value, value_scale, 2 * value.shape[-1])"
    wrong = CODES.format(LOW_FIRST, "int4").replace(right, f"exchanged({right})") + """
def exchanged(values):
    return values.reshape(*values.shape[:-1], -1, 2)[..., ::-1].reshape(values.shape)
"""
    (tmp_path / "mine.py").write_text(wrong, encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.value_nibbles")
    assert code == 1
    assert "codes_nibbles_exchanged_in_values" in out


def test_codes_of_eight_bits_cannot_be_packed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format(LOW_FIRST, "int8"), encoding="utf-8")
    code, out, err = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 2
    assert "needs stored_key to be a format of four bits (int4, uint4, mxfp4, nvfp4), not int8." in out + err
