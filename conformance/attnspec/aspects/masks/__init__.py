"""Masks: the boolean mask, the additive bias, and the causal flag."""
