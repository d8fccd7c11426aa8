"""Quantised attention: query, key and value are codes, and scales say what they stand for."""
