"""Whether commands cost more than in another installation of attnspec: processor seconds, in pairs, by turns.

    git worktree add ../earlier COMMIT                         # and install it in an environment of its own
    python conformance/benchmarks/paired_commands.py ../earlier/.venv/bin/attnspec --pairs 9

Both are given the same functions: that of README.md, which is wrong, and the one with the line that mends it. A first
pair is not counted. Ratios are of this installation to the other one; below 1, this one costs less.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
from processor_seconds import measure_command

README = Path(__file__).parents[2] / "README.md"
_WRONG = re.compile(r"^```python\n(# mine\.py\n.*?)^```", re.MULTILINE | re.DOTALL)
_MENDED_LINE = re.compile(r"^With `(total = .*)`, it conforms", re.MULTILINE)

COMMANDS: Mapping[str, str] = {
    "list": "list",
    "list clauses": "list clauses",
    "a wrong function at glance": "check wrong.py:attend --effort glance",
    "a right one at glance": "check right.py:attend --effort glance",
    "a wrong one at glance, with a page": "check wrong.py:attend --effort glance --html page.html",
    "a right one, one clause": "check right.py:attend --clause attention.definition",
    "a wrong one at quick": "check wrong.py:attend --effort quick",
    "a right one at quick": "check right.py:attend --effort quick",
}


def read_functions(readme: str) -> tuple[str, str]:
    """The function of README.md, which is wrong, and the same with the line that mends it.

    Raises ValueError if README has not one of each.
    """
    [wrong], [mended_line] = _WRONG.findall(readme), _MENDED_LINE.findall(readme)
    return wrong, re.sub(r"total = total \+ .*", mended_line, wrong)


@click.command(help=(__doc__ or "").partition("\n\n")[0])
@click.argument("other", type=click.Path(exists=True, dir_okay=False))
@click.option("--pairs", default=5, show_default=True, help="How often each command is run by both.")
@click.option("--only", default="", help="Commands whose name holds this text.")
def compare(other: str, pairs: int, only: str) -> None:
    """Print a line for each command."""
    here = [sys.executable, "-m", "attnspec"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrong, right = read_functions(README.read_text(encoding="utf-8"))
        (folder / "wrong.py").write_text(wrong, encoding="utf-8")
        (folder / "right.py").write_text(right, encoding="utf-8")
        for title, words in COMMANDS.items():
            if only not in title:
                continue
            both = []
            for turn in range(pairs + 1):
                # each goes first in every second pair
                order = ([other], here) if turn % 2 else (here, [other])
                seconds = {tool[0]: measure_command([*tool, *words.split()], folder) for tool in order}
                both.append((seconds[here[0]], seconds[other]))
            counted = both[1:]
            ratios = sorted(mine / theirs for mine, theirs in counted)
            mine, theirs = (statistics.median(each) for each in zip(*counted, strict=True))
            click.echo(f"{title}: {mine:.2f} s, {theirs:.2f} s there; ratio {statistics.median(ratios):.2f} "
                       f"({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    compare()
