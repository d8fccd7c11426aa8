"""Starts the process of what is judged, speaks with it, and notices how it ends."""
