"""What a run leaves behind, and the events it is made of. Knows nothing of how runs are made."""
