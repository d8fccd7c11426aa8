"""Words of `runs`: from one posed problem to another. Pure; where one is inexact, no claim."""
