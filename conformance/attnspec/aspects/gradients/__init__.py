"""Gradients: with the gradient of the output, those of the inputs are asked for."""
