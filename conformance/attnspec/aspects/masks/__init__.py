"""Masks: the boolean mask, the additive bias, and the causal flag."""
# Their truth and their words of the spec language are in the core: every problem has a mask or none, and other keywords
# that hide keys are handed over as a mask.
