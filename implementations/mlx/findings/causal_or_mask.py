"""mlx.core.fast.scaled_dot_product_attention: its one argument is either an array or the word "causal", not both."""

import inspect
import sys

import mlx.core as mx

documented = inspect.getdoc(mx.fast.scaled_dot_product_attention) or ""
signature = documented.splitlines()[0]
print(signature)
sys.exit(int("mask: None | str | array" in signature and "is_causal" not in signature))
