"""What real dropout in attention got wrong, and the faults that make the same mistake."""

from __future__ import annotations

from collections.abc import Mapping

OF_DROPOUT: Mapping[str, Mapping[str, str]] = {"dropout": {
    "Dao-AILab/flash-attention/issues/2088": "drop_seed_ignored",
    "Dao-AILab/flash-attention/pull/2439": "drop_alike_in_tiles drop_repeated_keys",
    "pytorch/pytorch/pull/197563": "grad_drop_other_mask",
    "aws-neuron/nki-samples/pull/80": "drop_renormalised",
    "PaddlePaddle/Parakeet/pull/75": "drop_before_softmax drop_logits_to_zero",
    "zhouhaoyi/Informer2020/issues/97": "drop_ignored",
}}
"""By class of mechanism, as in `mechanisms`."""
