"""The page of an audit: many implementations, by finding and by library."""
