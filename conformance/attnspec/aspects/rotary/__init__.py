"""Rotary embeddings: pairs of features that are turned by angles which the place of a token says."""
# They are another kind of subject than attention, so that no keyword of attention stands here: what one takes is in
# `core/forms.py`, and the truth in `numerics/rotary.py`.
