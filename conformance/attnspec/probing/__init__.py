"""Probing: all questions put to implementations and their variants, as jobs, and held to what manifests say."""
