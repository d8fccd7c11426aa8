"""Gradients: with the gradient of the output, those of the inputs are asked for."""
# Gradients of the definition and their bounds stay in `numerics/`, and sound backward passes in `faults/backward.py`:
# each is a second computation over all aspects, and no part that one of them adds.
