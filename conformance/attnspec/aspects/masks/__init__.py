"""Masks: the boolean mask, the additive bias, and the causal flag."""
# Their truth, words, questions and faults are in the core: every problem has a mask or none, the faults of layers are
# made of theirs, and what hides keys by other keywords is handed over as a mask.
