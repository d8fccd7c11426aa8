"""Faults that show only at certain sizes: a seed draws boundaries, blocks, tiles and grids."""
