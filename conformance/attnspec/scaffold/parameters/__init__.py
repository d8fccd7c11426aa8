"""The parameters of a layer: which there are, which of them is which matrix, and how it lies."""
