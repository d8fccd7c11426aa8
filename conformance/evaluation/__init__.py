"""How good the suite is: its power, compared with the rules that are used today, and its false alarms.

It is beside the package that users install, and not in it: `python -m evaluation` needs a checkout.
"""

from __future__ import annotations

PROGRAM = "python -m evaluation"
"""What a user types before the name of one of its commands."""
