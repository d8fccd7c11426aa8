"""Asks implementations and their variants all questions, and compares the answers with manifests.
"""
