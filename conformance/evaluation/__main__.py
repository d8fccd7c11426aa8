"""`python -m evaluation`: the commands that measure attnspec itself. Spawned processes import this, hence the guard."""

import sys

from evaluation.cli import main

if __name__ == "__main__":
    sys.exit(main())
