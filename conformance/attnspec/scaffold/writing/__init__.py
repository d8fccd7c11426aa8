"""Writes the Python of an adapter from a form."""
