"""Many implementations of many libraries on one page: what was found, by finding and by library."""
