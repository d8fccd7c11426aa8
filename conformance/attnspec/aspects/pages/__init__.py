"""Pages: keys and values lie in pages, and a table says which page holds which keys of a batch entry."""
