"""Lengths: each batch entry has its own number of keys, and of queries."""
