"""Scales of blocks: neighbours share one, the last block too where it is not full, and a subject gets one a block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.quantised.arrays import hand_over, misfit, scales, shape_of
from attnspec.aspects.quantised.block_faults import BLOCK_FAULTS, block_length
from attnspec.aspects.quantised.storage import BLOCKED, BLOCKS
from attnspec.core.declaration import Limits
from attnspec.core.nouns import DType
from attnspec.faults.fault import Fault, SoundFormulation
from attnspec.problems.domain import domain
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe, Sizes
from helpers.codes import SOUND, calls_of, departs
from helpers.commands import Cli

SIZES = Sizes(2, 4, 2, 5, 40, 37, 3)


@pytest.mark.parametrize("length", BLOCKS[:2])
@pytest.mark.parametrize(("family", "axis"), [("block", 3), ("tokens", 2), ("channel_tokens", 2)])
def test_neighbours_of_a_block_share_a_scale_and_blocks_differ(family: str, axis: int, length: int) -> None:
    made = scales("key_scale", f"int8/{family}({length})/odd", 3, SIZES)
    assert made.shape == shape_of("key", SIZES)
    assert block_length(made, axis) == length
    firsts = made.take(np.arange(0, made.shape[axis], length), axis)
    assert (np.moveaxis(firsts, axis, 0)[1:] != np.moveaxis(firsts, axis, 0)[:-1]).all()


@pytest.mark.parametrize(("granularity", "shape"), [
    ("block(16)", (2, 2, 40, 3)), ("tokens(16)", (2, 2, 3)), ("channel_tokens(32)", (2, 2, 2, 37))])
def test_one_scale_a_block_is_handed_over(granularity: str, shape: tuple[int, ...]) -> None:
    made = scales("key_scale", f"int8/{granularity}/odd", 3, SIZES)
    _, keywords = hand_over({}, {"key_scale": made}, Limits(key_scales=granularity))
    assert np.asarray(keywords["key_scale"]).shape == shape


def test_scales_of_shorter_blocks_are_no_case_where_longer_are_declared() -> None:
    recipe = "B2,H4,Hkv2,T5,S40,D40,Dv3;mask=none;families=normal;with=key_scale;key_scale=int8/{0}/odd;seed=11"
    problem = make_problem(Recipe.parse(recipe.format("block(16)")), DType.FLOAT32)
    assert misfit(problem, Limits(key_scales="block(32)")) == "the scales of its key differ not only by block(32)"
    assert not misfit(problem, Limits(key_scales="block(16)"))


def test_a_clause_may_ask_for_wide_values() -> None:
    assert domain(min_value_width=129).min_value_width == 129


def calls(fault: Fault) -> Iterator[Problem]:
    """Problems of some storages whose scales lie in blocks of every kind, beside scales of the other arrays."""
    return calls_of(fault, ("int8", "float8_e4m3fn", "uint4"), [f"{family}(16)" for family in BLOCKED],
                    ("B1,H4,Hkv2,T20,S40,D40,Dv41", "B2,H2,Hkv2,T1,S33,D33,Dv48"))


@pytest.mark.parametrize("fault", BLOCK_FAULTS, ids=lambda fault: fault.name)
def test_each_fault_of_blocks_departs_beyond_rounding(fault: Fault) -> None:
    attend = fault.function
    assert any(departs(attend, problem) for problem in calls(fault))


@pytest.mark.parametrize("formulation", SOUND, ids=lambda each: each.name)
def test_right_formulations_of_blocks_stay_within_rounding(formulation: SoundFormulation) -> None:
    attend = formulation.make()
    assert not any(departs(attend, problem) for problem in calls(BLOCK_FAULTS[-1]))


CODES = '''
import numpy as np

def attend(query, key, value, key_scale=None, value_scale=None):
    def heads(codes, scale):
        numbers = codes.astype(np.float32)
        numbers = numbers if scale is None else numbers * np.repeat(scale, {0}, axis=-1)[..., :codes.shape[-1]]
        return np.repeat(numbers, query.shape[1] // codes.shape[1], axis=1)

    logits = query @ heads(key, key_scale).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ heads(value, value_scale)).astype(np.float32)

attend.dtypes = ["float32"]
attend.stored_key = attend.stored_value = "float8_e4m3fn"
attend.key_scales = attend.value_scales = "block({1})"
'''


def test_a_function_of_blocks_conforms(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format(32, 32), encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 0, out
    assert "quantised.keys_by_block" not in out  # it applies


def test_a_last_block_without_its_scale_is_named(cli: Cli, tmp_path: Path) -> None:
    wrong = CODES.format(32, 32).replace("heads(key, key_scale)", "heads(key, full(key, key_scale))") + '''
def full(codes, scale):
    is_full = (1 + np.arange(scale.shape[-1])) * 32 <= codes.shape[-1] if scale is not None else False
    return scale if scale is None else np.where(is_full, scale, np.float32(1))
'''
    (tmp_path / "mine.py").write_text(wrong, encoding="utf-8")
    code, out, _ = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.keys_by_block")
    assert code == 1
    assert "key_scale_lost_in_feature_tail" in out


def test_a_length_of_blocks_that_is_none_gets_the_nearest(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODES.format(32, 31), encoding="utf-8")
    code, out, err = cli("check", str(tmp_path / "mine.py:attend"), "--clause", "quantised.*", "--effort", "glance")
    assert code == 2
    assert "'block(31)' is not a known answer to how many entries share a scale. Did you mean 'block(32)'" in out + err
