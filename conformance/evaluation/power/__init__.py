"""How many wrong subjects the suite detects, and after how many cases, compared with the rules used today."""
