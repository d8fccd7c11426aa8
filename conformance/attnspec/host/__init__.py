"""Runs in the process of the implementation: Python 3.8 or later, its library and NumPy.

attnspec is not imported there. These files are sent as text (hosting/launch.py), and import one
another relatively, because the name of their package there may be another.
"""
