"""`python -m evaluation`, the command. The guard matters: spawned processes import this file again."""

import sys

from evaluation.cli import main

if __name__ == "__main__":
    sys.exit(main())
