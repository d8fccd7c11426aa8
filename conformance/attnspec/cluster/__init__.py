"""A run on a cluster: Dask's scheduler deals the pairs of subject and dtype to workers that have their library."""
