"""`attnspec smoke` says what to do where every input fails for one reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.commands import Cli

TENSORS = "import torch\ndef attend(query, key, value):\n    return query.to(torch.float32)\n"
ARRAYS = "def attend(query, key, value):\n    return query.nothing\n"


@pytest.mark.family(1)
@pytest.mark.parametrize(("text", "is_told"), [(TENSORS, True), (ARRAYS, False)])
def test_a_function_of_tensors_that_gets_arrays_is_told_of_the_lift(
        cli: Cli, here: Path, text: str, is_told: bool) -> None:
    pytest.importorskip("torch")
    (here / "mine.py").write_text(text, encoding="utf-8")
    code, out, _ = cli("smoke", "mine.py:attend")
    assert code == 2
    assert ("Give it tensors: --lift torch" in out) is is_told
