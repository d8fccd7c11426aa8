"""Says what a right answer is, and how far honest rounding may stray from it. See docs/numerics.md."""
