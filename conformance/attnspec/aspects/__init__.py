"""The aspects of attention, a folder each: keyword, mathematics, words, questions, faults."""
