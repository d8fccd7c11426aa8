"""Decoders: called step after step, they hand their cache on from call to call."""
