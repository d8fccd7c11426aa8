"""Runs a plan: pytest and xdist do the work, and events report it."""
