"""What a failure is like: which faults of the catalogue explain it, which arithmetic, and where it sits."""
