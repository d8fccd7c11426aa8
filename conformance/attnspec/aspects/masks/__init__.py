"""Masks: the boolean mask, the additive bias, and the causal flag."""
# Their truth, words and questions are in the core: every problem has a mask or none, and what hides keys by other
# keywords is handed over as a mask.
