"""How many wrong subjects the suite convicts and how soon, beside the rules used today."""
