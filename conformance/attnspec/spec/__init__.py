"""The spec as frozen data: YAML to clauses. Knows no arrays and no words' meanings."""
