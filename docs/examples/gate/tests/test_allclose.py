"""The usual check: random inputs, a reference, a tolerance. The bug passes it."""

import numpy as np
from kernel.attention import attend


def test_attention_is_close_to_its_definition():
    random = np.random.default_rng(0)
    query, key, value = random.standard_normal((3, 2, 4, 48, 32)).astype(np.float32)
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(32)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    np.testing.assert_allclose(attend(query, key, value), weights / weights.sum(-1, keepdims=True) @ value, atol=1e-5)
