"""A layer of one's own that clearly refuses what layers need not take conforms without it, and the verdict says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.cli import main
from attnspec.core.plan import Plan
from attnspec.engine.summon import load_subject
from attnspec.subjects.subject import Subject

LAYER = """
import numpy as np

def split(X, heads, width):
    return X.reshape(*X.shape[:2], {split}, width).swapaxes(1, 2)

def attend(query, key, value, *, params, heads):
    width = {width}
    {check}
    Q, K, V = (split(array @ params[f"w_{{name}}"] + params[f"b_{{name}}"], heads, width)
               for name, array in (("query", query), ("key", key), ("value", value)))
    K, V = ({repeated} for X in (K, V))
    logits = Q @ K.swapaxes(-1, -2) / np.sqrt(width).astype(Q.dtype)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    joined = (weights / weights.sum(-1, keepdims=True) @ V).swapaxes(1, 2).reshape(*query.shape[:2], -1)
    return joined @ params["w_out"] + params["b_out"]

attend.dtypes = ["float32"]
{declared}
"""
OF_PARAMS, OF_MODEL = 'params["w_query"].shape[1] // heads', "query.shape[2] // heads"
GROUPS, MODEL, VALUES = (
    "grouped heads (Hkv < H)", "a model of another width (M ≠ H·D)", "values of another width (Dv ≠ D)")
NO_GROUPS = 'if params["w_key"].shape[1] != heads * width: raise ValueError("as many key heads as query heads")'
NO_WIDTHS = 'if params["w_value"].shape[1] != params["w_key"].shape[1]: raise ValueError("width of the values")'
NO_MODEL = 'if params["w_query"].shape[1] != query.shape[2]: raise ValueError("width of the model")'
CHECKED = f"{NO_GROUPS}\n    {NO_WIDTHS}"
TEXTBOOK = {"split": "heads", "width": OF_PARAMS, "repeated": "np.repeat(X, heads // X.shape[1], axis=1)",
            "declared": "", "check": CHECKED}


def written(folder: Path, **parts: str) -> str:
    (folder / "mine.py").write_text(LAYER.format(**{**TEXTBOOK, **parts}), encoding="utf-8")
    return f"{folder}/mine.py:attend"


def summoned(folder: Path, **parts: str) -> Subject:
    target = written(folder, **parts)
    return load_subject(target, Plan((target,)))


@pytest.mark.family(1)
@pytest.mark.parametrize(("parts", "refused"), [
    ({}, {GROUPS, VALUES}),
    ({"check": f"{CHECKED}\n    {NO_MODEL}"}, {GROUPS, VALUES, MODEL}),
    ({"split": "-1", "check": NO_WIDTHS}, {VALUES}),
    ({"check": "pass"}, set()),
    ({"declared": "attend.grouped, attend.ties_value_width = False, True"}, set()),
    ({"declared": "attend.self_attention_only = True"}, {GROUPS, VALUES}),
])
def test_what_a_layer_refuses_is_found_out(tmp_path: Path, parts: dict[str, str], refused: set[str]) -> None:
    subject = summoned(tmp_path, **parts)
    assert subject.refused_words.keys() == refused
    assert subject.declaration.limits.ties_model_width is (MODEL in refused)


def test_a_layer_that_raises_at_every_call_refuses_nothing(tmp_path: Path) -> None:
    assert summoned(tmp_path, width="missing").refused_words == {}


OF_FIRST = "X if X.shape[1] == heads else np.repeat(X[:, :1], heads, axis=1)"


@pytest.mark.family(1)
@pytest.mark.parametrize(("repeated", "code"), [(TEXTBOOK["repeated"], 0), (OF_FIRST, 1)])
def test_groups_that_a_layer_takes_are_judged(tmp_path: Path, repeated: str, code: int) -> None:
    target = written(tmp_path, split="-1", repeated=repeated, check=NO_WIDTHS)
    assert main(["check", target, "--clause", "grouped.definition", "--effort", "quick", "-n", "1",
                 "--no-record"]) == code


def test_the_verdict_names_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = written(tmp_path, check=f"{CHECKED}\n    {NO_MODEL}")
    assert main(["check", target, "--clause", "layers.*", "--effort", "glance", "-n", "1", "--no-record"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Conforms; refuses {GROUPS}, {VALUES}, {MODEL}. (exit code 0)"
