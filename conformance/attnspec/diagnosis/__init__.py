"""What explains a failure: which faults of the catalogue, which arithmetic, or which stage of the computation."""
