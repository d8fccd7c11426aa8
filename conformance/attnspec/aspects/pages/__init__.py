"""Pages, which hold keys and values; a table says which keys of which batch entry."""
# How pages are read stays in `faults/staged.py`, and how a problem is put into them in `subjects/serving_forms.py`:
# they are a form of arrays, and no part of the mathematics.
