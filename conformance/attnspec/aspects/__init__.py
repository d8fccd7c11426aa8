"""The aspects of attention, a folder each: keyword, mathematics, words with questions, faults."""
