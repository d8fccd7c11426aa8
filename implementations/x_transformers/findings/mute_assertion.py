"""x-transformers: a number of key/value heads that does not divide the heads is refused without a word."""

import sys

from x_transformers import Attention

try:
    Attention(9, heads=3, kv_heads=2)
except AssertionError as error:
    print(f"AssertionError with the message {str(error)!r}")
    sys.exit(int(not str(error)))
