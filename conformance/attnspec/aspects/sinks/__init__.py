"""Sinks: one more logit for each head, which joins every row's denominator and has no value."""
