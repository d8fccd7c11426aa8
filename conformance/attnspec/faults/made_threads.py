"""What real frameworks got wrong in forms that they made, and the faults that make the same mistake."""

from __future__ import annotations

from collections.abc import Mapping

OF_MADE: Mapping[str, Mapping[str, str]] = {"compiled, exported, mapped or recomputed": {
    "pytorch/pytorch/issues/148545": "compiled_for_first_shape",
    "ccdv-ai/convert_checkpoint_to_lsg/issues/15": "exported_branch_taken_once",
    "pytorch/pytorch/issues/151561": "mapped_mask_of_first",
    "allenai/OLMo-core/pull/828": "recomputed_dropout_drawn_anew",
}}
"""By class of mechanism, as in `mechanisms`."""
