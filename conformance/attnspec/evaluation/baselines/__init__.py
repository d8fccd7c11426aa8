"""The rules by which attention is judged today, as detectors: made from their description, put beside the suite."""
