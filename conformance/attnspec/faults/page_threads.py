"""What real attentions over pages got wrong, and the faults that make the same mistake."""

from __future__ import annotations

from collections.abc import Mapping

OF_PAGES: Mapping[str, Mapping[str, str]] = {"pages": {
    "tanishqkumar/ssd/issues/23": "pages_in_order",
    "golang-design/accel/issues/10": "pages_in_order_for_queries",
    "vllm-project/vllm/pull/27547": "pages_of_four_slots",
    "pegainfer-project/pegainfer/issues/291": "pages_one_more",
    "ROCm/ATOM/issues/702": "pages_low_bits",
    "local-inference-lab/b12x/issues/156": "pages_all_fetched",
}}
"""By class of mechanism, as in `mechanisms`."""
