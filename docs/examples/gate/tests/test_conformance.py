"""The gate: one test a clause and dtype. `kernel.attention` does not pass it, `kernel.mended` does."""

from attnspec import gate

test_attention = gate("kernel.attention:attend", profiles=["core", "masking", "causal"])
