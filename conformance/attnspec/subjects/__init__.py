"""Finds implementations, reads what they declare, and calls them. Judges nothing."""
