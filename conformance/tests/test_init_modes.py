"""`attnspec init` judges layers in training and with rates of dropout, too: the check finds what differs there."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.core.surroundings import Surroundings
from attnspec.scaffold import search
from attnspec.scaffold.callee_process import CalleeProcess
from attnspec.scaffold.form import CallForm, ModuleMode
from attnspec.scaffold.trial_adapter import Trier
from attnspec.scaffold.writing.telling import describe_form
from attnspec.subjects.target import host_of
from helpers.commands import Cli

LAYER = """
import torch
import torch.nn.functional as F
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim, heads=4, dropout=0.1):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.qkv, self.proj, self.drop = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Dropout({fixed})

    def forward(self, x, mask=None):
        B, T, M = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if mask is not None{where}:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = F.dropout(scores.softmax(-1), self.p, {when})
        return self.drop(self.proj((weights @ v).transpose(1, 2).reshape(B, T, M)))
"""

pytestmark = pytest.mark.usefixtures("here")


def write_layer(folder: Path, *, fixed: str = "dropout", where: str = "", when: str = "self.training") -> None:
    pytest.importorskip("torch")
    (folder / "mine.py").write_text(LAYER.format(fixed=fixed, where=where, when=when), encoding="utf-8")


def find_form() -> CallForm:
    return search.find_form("mine:Layer", Trier(CalleeProcess(host_of("mine:Layer", Surroundings()))))


def check_variants(cli: Cli) -> tuple[int, str]:
    """The exit code of a check of whether variants agree, and what it says."""
    assert cli("init", "mine:Layer")[0] == 0
    return cli("check", "mine/layer", "--implementations", "implementations", "--clause", "layers.switches", "--dtype",
               "float32", "--effort", "glance", "--no-record")[:2]


@pytest.mark.nightly
def test_a_layer_that_is_right_in_training_conforms(here: Path, cli: Cli) -> None:
    write_layer(here)
    code, out = check_variants(cli)
    assert (code, out.splitlines()[-1]) == (0, "Conforms. (exit code 0)")
    manifest = Path("implementations/mine/manifest.yaml").read_text(encoding="utf-8")
    assert '      training: {function: "layer:attend_training"}\n' in manifest
    assert "training: \"False\"" not in manifest


@pytest.mark.family(1)
@pytest.mark.parametrize(("mistake", "variant"), [
    ({"when": "True"}, "dropout_rate"), ({"where": " and not self.training"}, "training")])
def test_what_a_layer_does_in_one_mode_only_is_a_failure(here: Path, cli: Cli, mistake: dict[str, str],
                                                         variant: str) -> None:
    write_layer(here, **mistake)
    code, out = check_variants(cli)
    assert code == 1
    assert f"seen: output with {variant} should be that without" in out


@pytest.mark.nightly
def test_a_rate_that_the_constructor_does_not_take_is_switched_off(here: Path) -> None:
    write_layer(here, fixed="0.1")
    form = find_form()
    assert form.variants["training"].mode is ModuleMode.TRAINING_WITHOUT_DROPOUT
    assert ("Variants, which must answer as it does: "
            "training (in training, with the rate of every nn.Dropout at 0) and "
            "dropout_rate (in evaluation, dropout=0.5).") in describe_form(form)


@pytest.mark.nightly
def test_a_layer_that_drops_whatever_it_is_told_is_not_judged_in_training(here: Path) -> None:
    write_layer(here, when="self.training) if not self.training else F.dropout(scores.softmax(-1), 0.3")
    form = find_form()
    assert ("In training it drops at random, at a rate that its constructor does not take: that is not judged."
            in form.remarks)
    assert form.defaults["training"] == "False"
