"""The shared nouns. Standard library only; imports nothing of attnspec but `ground`."""
