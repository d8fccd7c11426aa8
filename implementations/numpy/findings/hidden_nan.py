"""A hidden key weighs 0, and 0 times NaN is NaN."""

import sys

import numpy as np

weights = np.array([[1.0, 0.0]])
value = np.array([[2.0], [np.nan]])
output = weights @ value
print("weights", weights, "values", value.ravel(), "output", output)
sys.exit(int(np.isnan(output).any()))
