"""The window: a query sees the keys about its own place alone."""
