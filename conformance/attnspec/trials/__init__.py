"""One clause against one subject at one dtype: clauses compiled to checks, cases drawn or dealt, asked and judged."""
