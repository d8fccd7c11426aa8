"""The court: clauses compiled against the words, put to subjects on cases that Hypothesis draws, ending in verdicts."""
