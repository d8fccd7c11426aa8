"""The scale: what the dot products are multiplied by."""
# The truth of it stays in `numerics/operands.py`, its stage in `faults/staged.py`: every problem has a scale, given or
# not. Its questions stay in `questions/numbers.py`: they are among the first that every subject is asked.
