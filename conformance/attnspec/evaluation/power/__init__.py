"""How many wrong subjects the suite detects and how soon, beside the rules used today."""
