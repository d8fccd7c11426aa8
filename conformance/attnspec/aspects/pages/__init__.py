"""Pages: keys and values lie in pages, and a table says which page holds which keys of a batch entry."""
# How pages are read stays in `faults/staged.py`, and how a problem is put into them in `subjects/serving_forms.py`:
# they are a form of arrays, and no part of the mathematics.
