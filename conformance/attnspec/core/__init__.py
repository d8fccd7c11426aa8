"""The shared nouns. Standard library only; imports nothing else of attnspec, but loads aspects by name."""
