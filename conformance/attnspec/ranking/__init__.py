"""Many kernels at once: each judged as a whole, one line a kernel, with what is known of their problems shared."""
