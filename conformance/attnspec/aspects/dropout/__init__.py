"""Dropout: at which rate weights are dropped in training, and the seed from which it follows which."""
# What is expected of an output whose dropped weights are known stays in `numerics/dropout.py`: gradients and trials
# need it, and it is no term of the definition.
