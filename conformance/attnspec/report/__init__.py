"""The page of one or several runs (`page.write_page`). Reads records and nothing else."""
