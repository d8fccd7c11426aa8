"""What several test files need; each module is named after what it helps with."""
