"""The spec as frozen data, read from YAML. Knows no arrays and no meanings of words."""
