"""Probing: asks implementations and their variants all questions, as jobs, and compares the answers with manifests."""
