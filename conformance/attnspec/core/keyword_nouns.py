"""Words about single keywords that packages below the aspects need: pools of clauses, names, profiles, patterns.

What a pattern means, and which ones are usual, stands in the `keyword.py` of its aspect.
"""

from __future__ import annotations

from typing import Literal

SERVING_POOL, CACHES_POOL, SEGMENTS_POOL, PAGES_POOL = "serving", "caches", "segments", "pages"
DECODER_POOL, GRADIENTS_POOL, DROPOUT_POOL, QUANTISED_POOL = "decoder", "gradients", "dropout", "quantised"
"""The pools of clauses that are about these keywords: what clauses of other pools meet is counted without them."""

RATE, SEED = "dropout_rate", "seed"
"""The keywords of dropout."""

DROPOUT_PROFILE = "dropout"
GRADIENTS_PROFILE = "gradients"

GRAD = "grad_output"
"""The keyword of gradients."""

APART = "gradients of {} are judged with --profile +gradients"
"""Why a subject whose framework could differentiate it is not asked for gradients."""

BACKWARD = "_backward"
"""How the name of a function's backward pass ends: `attend` and `attend_backward`."""

OUTPUT, LSE = "output", "lse"
"""What a backward pass is handed of the forward pass, if it has parameters for it."""

PastPattern = Literal["new_as_queries", "half", "one_new", "one_past", "none"]
SlopePattern = Literal["powers", "geometric", "of_entries", "steep", "zero"]
LengthPattern = Literal["ragged", "one_short", "full", "first_full", "shortest", "with_zero"]
SinkPattern = Literal["spread", "normal", "zero", "rising", "hundred", "minus_infinity"]
SegmentPattern = Literal["ragged", "two", "by_turns", "padded", "alike", "one", "keys_apart"]
PagePattern = Literal["shuffled", "in_order", "backwards", "one_slot", "odd", "one_page", "long_table", "large_beyond",
                      "nan_beyond", "no_page_beyond", "shared",
                      "pages_of_16", "pages_of_32", "pages_of_64", "pages_of_128", "pages_of_256", "beyond_16_bits"]
StepPattern = Literal["at_once", "token_by_token", "halves", "growing", "beside_another", "after_another",
                      "tried_before"]
GradPattern = Literal["normal", "of_rows", "integers", "one_row", "of_one_sign", "one_large", "one_entry", "ones",
                      "tiny", "large", "zero"]
