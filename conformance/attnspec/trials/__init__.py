"""Trials: one clause against one subject at one dtype, from its compiled check to its verdict."""
