"""Finds the parameters of a layer: which there are, which is which matrix, and how each lies."""
