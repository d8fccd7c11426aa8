"""The past: keys and values of earlier calls, which stand before the new ones."""
# Past and new keys are joined in `problems/problem.py`, and in `faults/staged.py` for attention that faults change:
# how many keys there are, and where the first query stands, is asked of every problem.
