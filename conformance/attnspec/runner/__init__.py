"""Runs a plan: pytest and xdist do the work, events tell of it."""
