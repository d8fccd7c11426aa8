"""What must not change while the code is moved about: cases, expectations, allowances, ids, records, pages, commands.

Rewrite what is stored here with `python -m golden.record` (see there). Only `adapter` imports attnspec.
"""
