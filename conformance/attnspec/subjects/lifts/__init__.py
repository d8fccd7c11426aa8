"""Lifts hand a function the arrays of its framework and read its answer back, without loss."""
