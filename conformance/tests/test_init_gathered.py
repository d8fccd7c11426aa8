"""`attnspec init` finds inputs that come in one dict or tuple, and takes each for a parameter of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from attnspec.scaffold.examined import ExaminedCallable, GatheredInputs, spread_inputs
from attnspec.scaffold.lookup import TheirParameter
from helpers.commands import Cli

CROSS = """
import torch
from torch import nn

class Cross(nn.Module):
    def __init__(self, latent_channels, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(latent_channels, latent_channels) for _ in range(4))

    def forward(self, batch):
        {unpacked}
        q, k, v = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                   for each in (self.to_q(latents), self.to_k(inputs), self.to_v(inputs)))
        logits = q @ k.mT * q.shape[-1] ** -0.5
        if pad is not None:
            logits = logits.masked_fill(pad[:, None, None], -torch.inf)
        return {{"latents": self.to_out((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))}}
"""
DICT = 'latents, inputs, pad = batch["latents"], batch["inputs"], batch.get("pad_mask")'
TUPLE = "latents, inputs = batch; pad = None"


def layer(forward: str) -> ExaminedCallable:
    source = f"class Layer:\n    def forward(self, batch, scale=1):\n        {forward}\n"
    parameters = (TheirParameter("batch"), TheirParameter("scale", 1))
    return ExaminedCallable("layers:Layer", "Layer", "layers", "layers", is_class=True, parameters=(),
                            packages=frozenset(),
                            methods={"forward": parameters}, source=source)


@pytest.mark.parametrize(("forward", "names", "is_dict", "required"), [
    (DICT, ("latents", "inputs", "pad_mask"), True, ("latents", "inputs")),
    ("q, k = batch", ("q", "k"), False, ("q", "k")), ("(q, k) = batch", ("q", "k"), False, ("q", "k"))])
def test_inputs_are_read_off_the_source(forward: str, names: tuple[str, ...], required: tuple[str, ...], *,
                                        is_dict: bool) -> None:
    spread, gathered = spread_inputs(layer(forward))
    assert gathered == GatheredInputs("batch", names, is_dict)
    assert [each.name for each in spread.call_parameters] == [*names, "scale"]
    assert tuple(each.name for each in spread.call_parameters if each.is_required) == required


@pytest.mark.parametrize("forward", ["return batch", "x = batch[0]", 'x = other["q"]', "x, (y, z) = batch"])
def test_one_input_stays_one(forward: str) -> None:
    callee = layer(forward)
    assert spread_inputs(callee) == (callee, None)


@pytest.mark.parametrize(("unpacked", "kind"), [(DICT, "dict"), (TUPLE, "tuple")])
def test_a_layer_whose_inputs_come_together_is_found(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     unpacked: str, kind: str) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("cross.py").write_text(CROSS.format(unpacked=unpacked), encoding="utf-8")
    code, out, _ = cli("init", "cross.py:Cross")
    assert code == 0
    assert f"Its inputs come in one {kind}, batch: latents, inputs" in out
    assert ("`mask` is its pad_mask: True where a key is hidden, (B,S)." in out) is (kind == "dict")
    judged, _, _ = cli("check", "cross/cross", "--implementations", "implementations", "--dtype", "float32",
                       "--clause", "layers.*", "--effort", "glance", "--no-record")
    assert judged == 0
