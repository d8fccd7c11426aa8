"""Sinks: one more logit for each head, which joins the denominator of every row and has no value."""
