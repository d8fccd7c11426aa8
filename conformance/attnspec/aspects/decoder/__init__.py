"""Decoders: called step after step, they hand their cache on from call to call."""
# How a decoder stores and reads stays in `faults/staged_forms.py`, and how steps are put to one in
# `subjects/serving_forms.py`: it is a form of functions, and no part of the mathematics.
