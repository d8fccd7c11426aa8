"""What runs subjects: a plan's items, the verdict on each, and what a record keeps of them."""
