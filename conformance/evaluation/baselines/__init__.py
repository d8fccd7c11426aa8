"""The rules by which attention is tested today, written from their sources, to compare the suite with."""
