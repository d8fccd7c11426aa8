"""The log-sum-exp of every row, which is returned beside the output."""
# The log-sum-exp itself and its bound stay in `numerics/bound.py`: gradients need them where nobody asks for it.
