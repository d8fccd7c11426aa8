"""The note divides by np.sqrt of a Python int, which is a float64: NumPy 2 then computes in float64."""

import sys

import numpy as np

logits = np.ones((2, 2), np.float32)
scaled = logits / np.sqrt(16)
print("numpy", np.__version__, "float32 divided by np.sqrt(16) is", scaled.dtype)
sys.exit(int(scaled.dtype == np.float64))
