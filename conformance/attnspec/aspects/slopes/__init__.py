"""Slopes: each head lowers its logits by its slope times the distance from the query's own place (ALiBi)."""
