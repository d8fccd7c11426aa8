"""What real rotary embeddings got wrong, and the faults that make the same mistake."""

from __future__ import annotations

from collections.abc import Mapping

OF_ROTARY: Mapping[str, Mapping[str, str]] = {"rotary embedding": {
    "tenstorrent/tt-metal/issues/26844": "rotary_pairs_swapped",
    "PaddlePaddle/PaddleFleet/pull/678": "rotary_interleaved_ignored",
    "pie-project/pie/issues/602": "rotary_halves_of_all",
    "NVIDIA/Megatron-LM/issues/453": "rotary_positions_ignored",
    "turboderp/exllama/pull/101": "rotary_positions_run_on",
    "NVIDIA-NeMo/Automodel/pull/2377": "rotary_positions_from_first",
    "pegainfer-project/pegainfer/issues/220": "rotary_cache_clamped",
    "huggingface/candle/pull/3746": "rotary_base_ignored",
    "pie-project/pie/pull/603": "rotary_frequency_of_width",
    "sgl-project/sglang-jax/issues/1472": "rotary_frequency_in_bfloat16",
    "huggingface/transformers/pull/29285": "rotary_angle_in_bfloat16",
    "nkalyanv99/UNI-D2/pull/6": "rotary_positions_in_bfloat16",
    "huggingface/transformers/issues/48428": "rotary_positions_in_tf32",
    "oxiglade/mlx-rs/issues/359": "rotary_first_head_only_for_one_token",
}}
"""By class of mechanism, as in `mechanisms`."""
