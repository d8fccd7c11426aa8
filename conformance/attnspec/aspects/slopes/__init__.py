"""Slopes (ALiBi): each head lowers logits by its slope times the distance from the query."""
