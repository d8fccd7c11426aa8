"""Dropout: at which rate weights are dropped in training, and the seed from which it follows which."""
