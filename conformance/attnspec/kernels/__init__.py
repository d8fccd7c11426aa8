"""Kernels as benchmarks of kernel generators hand them in, and classes that judge them there."""
