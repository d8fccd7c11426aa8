"""The page of one or several runs. Reads records and nothing else."""

from attnspec.report.page import render, write_page

__all__ = ["render", "write_page"]
