"""Families of faults that show only at certain sizes: a seed draws the axis's boundary, the block and the mechanism's number."""
