"""The scale: what the dot products are multiplied by."""
