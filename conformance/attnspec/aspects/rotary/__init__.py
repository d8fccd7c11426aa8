"""Rotary embeddings: pairs of features, turned by angles that follow from a token's place."""
# They are another kind of subject than attention, so that no keyword of attention stands here: what one takes is in
# `core/forms.py`, and the truth in `numerics/rotary.py`.
