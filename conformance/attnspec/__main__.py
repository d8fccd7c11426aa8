"""`python -m attnspec`: the command, without a script. The guard matters: spawned processes import this file again."""

import sys

from attnspec.cli import main

if __name__ == "__main__":
    sys.exit(main())
