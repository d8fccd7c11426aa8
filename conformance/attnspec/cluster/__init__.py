"""A run on a cluster: Dask deals pairs of subject and dtype to workers with their library."""
