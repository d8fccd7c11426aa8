"""Asks implementations and variants all questions, and compares answers with manifests."""
