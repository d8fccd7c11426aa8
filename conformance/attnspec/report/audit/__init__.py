"""Many implementations of many libraries on one page: what was found, told by finding and by library."""
