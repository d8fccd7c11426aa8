"""The form of a foreign callable: found out by trying, and written down as an adapter with its manifest."""
