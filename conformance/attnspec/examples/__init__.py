"""Functions that documentation and `attnspec tour` judge; each is written as its users would write it."""
