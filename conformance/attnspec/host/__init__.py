"""What runs in the process of the implementation: Python 3.8 or later, its library and NumPy,
nothing of attnspec.

These files travel as text (hosting/launch.py) and import one another relatively, under whatever
name they get there.
"""
