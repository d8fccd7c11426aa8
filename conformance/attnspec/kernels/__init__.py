"""Kernels as benchmarks of kernel generators hand them in, and their benchmarks' own classes that judge by attnspec."""
