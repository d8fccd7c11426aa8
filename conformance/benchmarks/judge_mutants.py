"""Judge mutants: attnspec with one weakening each, and the test of the short suite that notices it.

    python conformance/benchmarks/judge_mutants.py --record mutants.jsonl      # sixty; goes on where it was stopped
    python conformance/benchmarks/judge_mutants.py --count 60 --seed 1
    python conformance/benchmarks/judge_mutants.py --only nan_ignored --only 'numerics/*'
    python conformance/benchmarks/judge_mutants.py --stages 2    # only the tests nearest to what is changed

Named mutants stand in `mutation/weakenings.yaml`: an allowance doubled, a NaN that is overlooked, a baseline that
forgives regressions. The others are drawn by seed from the modules that decide (`mutation/weakenings.py`). Each is put
into a copy of the checkout. The tests near the changed module come first, then the rest of the short suite, until one
fails. That one must pass where nothing but a comment was added to the same file: else it is a test of something else.
Every mutant changes code. One that survives is a gap in the tests, unless the table says why its answers are the same.
Exit codes: 0 all are killed or have a reason, 1 one survives, 2 the record is of other code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import count
from pathlib import Path

import click
from mutation.weakenings import PACKAGE, JudgeMutant, drawn_mutants, known_survivors, module_of, named_mutants

CHECKOUT = Path(__file__).resolve().parents[2]
COMMENT = "\n# a comment\n"
LIMIT = 3600.0
"""Seconds that a run of tests may take: a mutant that hangs is noticed, too."""

STAGES = 4
"""In so many stages the tests are run: those that a mutant names, those that import what is changed, those that import
what does, and the others.
"""

HANGS = "the tests do not end"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MutantTried:
    """What became of one mutant. killer: the id of the test that failed; empty: it survives.  is_whole:
    whether all tests of the short suite had their turn.
    """

    id: str
    digest: str
    says: str
    killer: str
    is_whole: bool
    seconds: float


class TreeCopy:
    """A copy of the checkout whose package can be changed. Its tests, and the processes that they start, import it."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self._workers = folder, workers
        self._clock, self._sound = count(int(time.time()), 10), set[str]()
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT,
                                check=True, capture_output=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (CHECKOUT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, folder / name)

    def write(self, path: str, text: str) -> None:
        """Change a file of the package. Each text has a time of its own: Python knows by it that bytecode is old."""
        file, moment = self.folder / "conformance" / "attnspec" / path, next(self._clock)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (moment, moment))

    def first_failing(self, tests: Sequence[str], passed_over: Sequence[str] = ()) -> str:
        """The id of the first of these tests that fails; empty where none does."""
        left_out = [f"--deselect={name}" for name in passed_over]
        workers = ["-n", str(self._workers)] if self._workers else []
        command = [sys.executable, "-m", "pytest", "-x", "-q", *workers, "-p", "no:cacheprovider", "-rfE", "--tb=no",
                   *left_out, *tests]
        found = {**os.environ, "PYTHONPATH": str(self.folder / "conformance"), "OMP_NUM_THREADS": "1"}
        found.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            ended = subprocess.run(command, cwd=self.folder, env=found, check=False, capture_output=True, text=True,
                                   timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return HANGS
        failed = _FAILED.search(ended.stdout)
        if failed is None and ended.returncode not in (0, 5):  # 5: no test is left
            return f"pytest ends with exit code {ended.returncode}"
        return failed[1] if failed else ""

    def is_sound(self, test: str, mutant: JudgeMutant) -> bool:
        """Whether the test passes where the file that the mutant changes has a comment more."""
        if "::" in test and test not in self._sound:
            self.write(mutant.path, _package_text(mutant.path) + COMMENT)
            if self.first_failing([test]):
                return False
            self._sound.add(test)
        return True

    def killer(self, mutant: JudgeMutant, tests: Sequence[str]) -> str:
        """The first of these tests that fails because of the mutant."""
        others: list[str] = []
        while True:
            self.write(mutant.path, mutant.text)
            failed = self.first_failing(tests, others)
            if not failed or self.is_sound(failed, mutant):
                self.write(mutant.path, _package_text(mutant.path))
                return failed
            others.append(failed)


def _package_text(path: str) -> str:
    return (CHECKOUT / "conformance" / "attnspec" / path).read_text(encoding="utf-8")


def staged_tests(mutant: JudgeMutant) -> tuple[list[str], ...]:
    """The files of tests by stage; within each, those first that import least, and so are about it."""
    importing, steps = _imports_of_package(), {mutant.module: 0}
    ahead = [mutant.module]
    for module in ahead:  # grows while it is read
        found = [each for each, imported in importing.items() if module in imported and each not in steps]
        steps |= dict.fromkeys(found, steps[module] + 1)
        ahead += found
    stages: tuple[list[str], ...] = tuple([] for _ in range(STAGES))
    for path, imported in sorted(_imports_of_tests().items(), key=lambda row: len(row[1])):
        distance = min((steps[each] for each in imported if each in steps), default=STAGES)
        stages[0 if Path(path).name in mutant.tests else min(1 + distance, STAGES - 1)].append(path)
    return stages


@cache
def _imports_of_tests() -> dict[str, frozenset[str]]:
    files = sorted((CHECKOUT / "conformance" / "tests").glob("test_*.py"))
    return {path.relative_to(CHECKOUT).as_posix(): frozenset(_modules_imported_by(path)) for path in files}


@cache
def _imports_of_package() -> dict[str, frozenset[str]]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {module_of(path.relative_to(PACKAGE).as_posix()): frozenset(_modules_imported_by(path)) for path in files}


def _modules_imported_by(path: Path) -> Iterator[str]:
    """The modules of attnspec that a file imports, or names where it replaces a part of one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("attnspec"):
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("attnspec."):
            yield from (node.value.rsplit(".", cut)[0] for cut in range(3))


def put_to_tests(mutant: JudgeMutant, tree: TreeCopy, most: int = STAGES) -> MutantTried:
    """Run the stages in their order, at most so many of those that have tests, until a test fails."""
    began, killer, run = time.monotonic(), "", 0
    stages = [tests for tests in staged_tests(mutant) if tests]
    while not killer and run < min(most, len(stages)):
        killer = tree.killer(mutant, stages[run])
        run += 1
    is_whole = run == len(stages)
    return MutantTried(mutant.id, digest_of(mutant), mutant.says, killer, is_whole, round(time.monotonic() - began, 1))


def digest_of(mutant: JudgeMutant) -> str:
    """Of its text: a record of other code is of other mutants."""
    return hashlib.sha256(mutant.text.encode()).hexdigest()[:16]


def read_tried(record: Path | None) -> dict[str, MutantTried]:
    """What a record holds, by id."""
    lines = record.read_text(encoding="utf-8").splitlines() if record and record.is_file() else []
    return {tried.id: tried for tried in (MutantTried(**json.loads(line)) for line in lines)}


def chosen_mutants(total: int, seed: int, only: Sequence[str] = ()) -> list[JudgeMutant]:
    """The named ones, and so many drawn ones that they are `total` together; of these those that are asked for."""
    named = named_mutants()
    chosen = [*named, *drawn_mutants(max(0, total - len(named)), seed)][:total]
    return [each for each in chosen if not only or any(fnmatchcase(each.id, pattern) for pattern in only)]


def written_table(tried: Sequence[MutantTried]) -> str:
    """Markdown: each mutant, and what kills it."""
    reasons = known_survivors()
    rows = [f"| `{each.id}` | {each.says} | {_fate(each, reasons.get(each.id, ''))} |" for each in tried]
    return "\n".join(["| mutant | what is wrong | killed by |", "|---|---|---|", *rows])


def _fate(tried: MutantTried, reason: str) -> str:
    if tried.killer:
        return f"`{tried.killer.removeprefix('conformance/tests/')}`"
    how = "survives" if tried.is_whole else "survives the nearest tests"
    return f"{how}: {reason}" if reason else f"**{how}**"


@click.command(help=__doc__)
@click.option("--seed", default=0, show_default=True)
@click.option("--count", "total", default=60, show_default=True, help="How many, the named ones first.")
@click.option("--only", multiple=True, help="Only mutants whose id is like this.")
@click.option("--stages", "most", default=STAGES, show_default=True, help="Put each to so many stages at most.")
@click.option("--record", type=click.Path(path_type=Path), help="A file of JSON lines; what it has is not run again.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the table here.")
@click.option("-n", "workers", default=0, show_default=True, help="Workers of pytest.")
def main(*, seed: int, total: int, only: tuple[str, ...], most: int, record: Path | None, markdown: Path | None,
         workers: int) -> None:
    """Try them, and tell."""
    mutants, known = chosen_mutants(total, seed, only), read_tried(record)
    if any(each.id in known and known[each.id].digest != digest_of(each) for each in mutants):
        click.echo(f"{record} is of other code: remove it, or name another file.", err=True)
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix="judge mutants ") as folder:
        tree = TreeCopy(Path(folder).resolve(), workers)
        for mutant in mutants:
            if mutant.id not in known:
                tried = known[mutant.id] = put_to_tests(mutant, tree, most)
                click.echo(f"{tried.killer or 'SURVIVES'}  {tried.id}: {tried.says}")
                if record:
                    with record.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(tried)) + "\n")
    tried_ones = [known[each.id] for each in mutants]
    if markdown:
        markdown.write_text(written_table(tried_ones) + "\n", encoding="utf-8")
    survivors = [each.id for each in tried_ones if not each.killer]
    left = [name for name in survivors if name not in known_survivors()]
    click.echo(f"{len(tried_ones)} mutants, {len(tried_ones) - len(survivors)} killed; without a reason survive: "
               f"{', '.join(left) or 'none'}.")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
