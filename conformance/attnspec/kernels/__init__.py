"""Takes kernels as benchmarks of kernel generators hand them in, and judges them there."""
