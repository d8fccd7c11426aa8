"""Problems: the inputs of attention, and the recipes that make them."""
