"""Layers that are called step after step on one input: what is behind a past, and shapes that a past changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main

LAYER = '''
import numpy as np

def step(query, key, value, cache, *, params, heads, mask=None, causal=False{keywords}):
    """A layer that keeps all keys and values, in float32."""
    B, T, _ = query.shape
    q, k, v = ((query @ params["w_" + name] + params["b_" + name]).reshape(B, T, heads, -1).swapaxes(1, 2)
               for name in ("query", "key", "value"))
    if cache is not None:
        k, v = np.concatenate([cache[0], k], 2), np.concatenate([cache[1], v], 2)
    seen = np.tri(T, k.shape[2], k.shape[2] - T, dtype=bool) if causal else np.ones((T, k.shape[2]), bool)
    {heed}
    logits = q @ k.swapaxes(2, 3) / np.sqrt(q.dtype.type(q.shape[3]))
    logits = np.where(seen if mask is None else seen & mask, logits, np.finfo(logits.dtype).min)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    output = (weights / weights.sum(-1, keepdims=True)) @ {value}
    return output.swapaxes(1, 2).reshape(B, T, -1) @ params["w_out"] + params["b_out"], (k, v)

step.dtypes = ["float32"]
step.ties_value_width = True
step.conventions = {{"hidden_row": "uniform"}}
{limits}
'''
HEED = "seen = seen if key_lengths is None else seen & (np.arange(k.shape[2]) < key_lengths[:, None, None, None])"


def judged(folder: Path, *options: str, keywords: str = "", heed: str = "", value: str = "v", limits: str = "") -> int:
    text = LAYER.format(keywords=keywords, heed=heed, value=value, limits=limits)
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return main(["check", "mine.py:step", "-n", "1", "--no-record", *options])


def test_a_layer_of_one_input_may_take_lengths_behind_a_past(here: Path) -> None:
    assert judged(here, "--clause", "past.slots_beyond_are_irrelevant", "--effort", "quick",
                  keywords=", key_lengths=None", heed=HEED, limits="step.self_attention_only = True") == 0


def test_a_failure_at_a_shape_that_a_past_changes_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = 'step.past_lengths = "equal"\nstep.lengths = "equal"\nstep.grouped = False'
    assert judged(here, "--clause", "past.*", "--effort", "glance", value="np.where(k[..., :1] > 1, 0, v)",
                  limits=limits) == 1
    assert "past.definition (spec/past.yaml:" in capsys.readouterr().out
