"""Words of `runs`: a posed problem to another. Pure; none touches the subject. What would not be exact says nothing."""
