"""Many kernels at once: each judged as a whole, a line each; what is expected is shared."""
