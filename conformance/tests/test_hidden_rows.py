"""Rows that a causal flag or a window leaves no key are held to the declared convention, as those under a mask are."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main

THEIRS = '''
import numpy as np

def attend(query, key, value, *, causal=False, window=None):
    """Aligned at the end, so that the first queries see nothing if there are more of them than keys."""
    T, S = query.shape[2], key.shape[2]
    apart = np.arange(S) - np.arange(T)[:, None] - (S - T)
    left, right = window or (None, None)
    seen = (apart <= 0) | (not causal)
    seen &= (left is None or apart >= -left) & (right is None or apart <= right)
    logits = query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) / query.shape[-1] ** 0.5
    logits = np.where(seen, logits, -np.inf)
    top = logits.max(-1, keepdims=True)
    grown = np.exp(logits - np.where(np.isneginf(top), 0, top))
    with np.errstate(invalid="ignore"):
        weights = grown / ({total})
    return (weights @ value.astype(np.float64)).astype(query.dtype)

attend.conventions = {{"hidden_row": "zeros", "causal_alignment": "bottom_right"}}
'''
TOTAL = "grown.sum(-1, keepdims=True)"


@pytest.mark.family(1)
@pytest.mark.parametrize(("total", "code"), [(TOTAL, 1), (f"np.where({TOTAL} == 0, 1, {TOTAL})", 0)])
@pytest.mark.parametrize("clause", ["causal.hidden_row_convention", "window.hidden_row_convention"])
def test_a_declared_convention_for_hidden_rows_binds_without_a_mask(
    clause: str, total: str, code: int, here: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "theirs.py").write_text(THEIRS.format(total=total), encoding="utf-8")
    assert main(["check", "theirs.py:attend", "--clause", clause, "--dtype", "float32", "--effort", "quick", "-n", "1",
                 "--no-record"]) == code
    told = capsys.readouterr().out
    assert ("rows that see no key should be zeros" in told) == bool(code)
