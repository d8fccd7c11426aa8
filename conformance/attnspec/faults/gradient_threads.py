"""What real backward passes got wrong, and the faults that make the same mistake."""

from __future__ import annotations

from collections.abc import Mapping

OF_GRADIENTS: Mapping[str, Mapping[str, str]] = {"backward pass": {
    "ROCm/aotriton/issues/236": "grad_ignores_strides",
    "marin-community/levanter/pull/449": "grad_key_of_one_head grad_value_of_one_head",
    "XunhaoLai/native-sparse-attention-triton/issues/27": "grad_key_groups_by_turns",
    "pytorch/pytorch/issues/41508": "grad_empty_row_nan",
    "facebookresearch/xformers/pull/467": "grad_partial_sums_stored",
    "huggingface/diffusers/pull/14341": "grad_heads_misread",
    "paiml/aprender/pull/2203": "grad_param_severed",
    "hao-ai-lab/FastVideo/pull/925": "grad_key_lengths_dropped",
}}
"""By class of mechanism, as in `mechanisms`."""
