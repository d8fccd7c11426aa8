"""How right is told from wrong: the truth, and how far honest rounding may stray from it. See
docs/numerics.md.
"""
