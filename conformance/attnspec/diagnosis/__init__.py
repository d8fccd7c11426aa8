"""Explains a failure: by a fault of the catalogue, by its arithmetic, or by the stage that is wrong."""
