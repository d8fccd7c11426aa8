"""Segments: documents that share a row; a query sees the keys of its own segment."""
