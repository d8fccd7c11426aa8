"""Finds out by trying how a foreign callable is called, and writes its adapter and manifest."""
