"""`rank`, `gate` and `probe` know functions of codes as any others."""

from __future__ import annotations

from pathlib import Path

import attnspec
import numpy as np
import pytest
from attnspec.problems.problem import Array
from helpers.commands import Cli

KERNELS = '''
import numpy as np

def attention(query, key, value, key_scale, value_scale):
    def wide(codes, scale):
        return np.repeat(codes.astype(np.float32) * scale, query.shape[1] // codes.shape[1], 1)
    logits = query @ wide(key, key_scale).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ wide(value, value_scale)).astype(query.dtype)

def right(query, key, value, key_scale=None, value_scale=None):
    return attention(query, key, value, key_scale[:, None, None], value_scale[:, None, None])

def of_first_head(query, key, value, key_scale=None, value_scale=None):
    return attention(query, key, value, key_scale[:, None, None], value_scale[0])

for function in (right, of_first_head):
    function.dtypes = ["float32"]
    function.stored_key = function.stored_value = "int8"
    function.key_scales = function.value_scales = "head"
'''


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def test_rank_tells_a_right_kernel_of_codes_from_a_wrong_one(cli: Cli, kernels: Path) -> None:
    code, out, _ = cli("rank", f"{kernels}:of_first_head", f"{kernels}:right", "--clause", "quantised.values_by_head",
                       "--effort", "quick")
    assert code == 1
    assert "2 kernels: 1 conforms, 1 does not" in out
    right, wrong = (next(line for line in out.splitlines() if f".py:{name}" in line)
                    for name in ("right", "of_first_head"))
    assert "1.00  conforms" in right
    assert "quantised.values_by_head: the value scale of the first head serves all heads" in wrong


def test_a_probe_hands_scales_of_one_to_a_function_that_wants_them(cli: Cli, kernels: Path) -> None:
    code, out, _ = cli("probe", f"{kernels}:right")
    assert code == 0, out
    answers = {line.split()[0]: line.split()[1] for line in out.splitlines() if line.startswith("  ") and line.split()}
    assert answers["grouped_heads"] == "repeat"
    assert answers["key_scale.form"] == answers["value_scale.form"] == "multiplied"


def attend(query: Array, key: Array, value: Array, key_scale: Array | None = None) -> Array:
    """Query (B,H,T,D), codes key (B,Hkv,S,D) and scales (Hkv,), value (B,Hkv,S,Dv), to (B,H,T,Dv)."""
    group = query.shape[1] // key.shape[1]
    keys = key.astype(np.float32) * (1 if key_scale is None else key_scale[:, None, None])
    logits = query @ np.repeat(keys, group, 1).swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ np.repeat(value, group, 1))


attend.dtypes = ["float32"]  # type: ignore[attr-defined]  # as its users write it
attend.stored_key = "float8_e4m3fn"  # type: ignore[attr-defined]
attend.key_scales = "head"  # type: ignore[attr-defined]


test_a_gate_holds_a_function_of_codes_to_its_clauses = attnspec.gate(
    attend, clauses="quantised.keys_by_head", effort="glance")
