"""The past: keys and values of earlier calls, which stand before the new ones."""
