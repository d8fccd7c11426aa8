"""Dropout: the rate at which weights are dropped in training, and the seed that says which."""
# What is expected of an output whose dropped weights are known stays in `numerics/dropout.py`: gradients and trials
# need it, and it is no term of the definition.
