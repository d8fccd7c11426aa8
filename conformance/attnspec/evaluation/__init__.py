"""How good the suite is: its power beside the rules that are in use today, and its false alarms."""
