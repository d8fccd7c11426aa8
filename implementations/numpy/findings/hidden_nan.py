"""Attention written out in NumPy: a hidden key weighs 0, and by IEEE 754 0 times NaN or infinity is NaN.

Where -inf is added to hidden logits, NaN in a hidden key makes the weights NaN, for NaN - inf is NaN.
"""

import sys

import numpy as np

query, key = np.ones((1, 1)), np.ones((2, 1))
visible = np.array([[True, False]])
logits = np.where(visible, query @ key.T, -np.inf)
weights = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
seen = []
for hidden in (np.nan, np.inf):
    value = np.array([[2.0], [hidden]])
    with np.errstate(invalid="ignore"):
        seen.append(weights @ value)
    print("weights", weights, "values", value.ravel(), "output", seen[-1])

logits = query @ np.array([[1.0], [np.nan]]).T + np.where(visible, 0, -np.inf)
weights = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
print("NaN in the hidden key, -inf added to its logit: weights", weights)
sys.exit(int(np.isnan(seen).all() and np.isnan(weights).all()))
