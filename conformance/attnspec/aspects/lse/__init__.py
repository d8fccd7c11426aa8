"""The log-sum-exp of every row, which is returned beside the output."""
