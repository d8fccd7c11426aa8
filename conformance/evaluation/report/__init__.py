"""The page and the pictures of power and of campaigns. Reads records and nothing else."""
