"""Lengths: each batch entry has its own number of keys, and of queries."""
# From where places count beside lengths stays in `numerics/operands.py`, and which rows are judged in
# `numerics/operands.py`: both are asked of every problem.
