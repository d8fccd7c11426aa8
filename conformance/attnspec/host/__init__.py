"""What runs in the process of what is judged: Python from 3.8 on, its library and NumPy, nothing of attnspec.

These files travel as text (hosting/bundle.py) and import one another relatively, under whatever name they get there.
"""
