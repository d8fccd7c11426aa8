"""How good the suite is: its power, compared with the rules that are used today, and its false alarms."""
