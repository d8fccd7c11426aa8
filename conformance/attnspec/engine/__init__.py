"""Runs subjects: the items of a plan, the verdict on each, and what a record keeps of them."""
