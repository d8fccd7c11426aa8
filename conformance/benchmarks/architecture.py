"""The drawing of the house in docs/architecture.md: its floors from the import contracts, its words from the packages.

python conformance/benchmarks/architecture.py            # prints it
python conformance/benchmarks/architecture.py --write    # puts it in its place in docs/architecture.md
"""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator
from pathlib import Path

import click

CHECKOUT = Path(__file__).parents[2]
DOCUMENT = Path("docs") / "architecture.md"
BEGINS, ENDS = "<!-- drawn by conformance/benchmarks/architecture.py -->", "<!-- end of the drawing -->"


BESIDE = "Beside the package is `conformance/evaluation`, which no wheel holds:"


def floors(checkout: Path, contract: str) -> list[list[str]]:
    """The packages of each floor, top floor first, as this contract of .importlinter has them."""
    contracts = configparser.ConfigParser()
    contracts.read(checkout / ".importlinter", encoding="utf-8")
    lines = contracts[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [[name.strip() for name in line.split("|")] for line in lines if line.strip()]


def drawing(checkout: Path = CHECKOUT) -> str:
    """Two tables in Markdown: the installed package, and the one that measures it."""
    folder = checkout / "conformance"
    return "\n\n".join([_table(floors(checkout, "layers"), folder / "attnspec"), BESIDE,
                        _table(floors(checkout, "evaluation"), folder / "evaluation")])


def _table(every: list[list[str]], package: Path) -> str:
    """A row a package, those of one floor together, inner packages below the one they are in."""
    rows = [f"| {len(every) - number} {row}" for number, names in enumerate(every) for name in names
            for row in _rows(package, name)]
    return "\n".join(["| floor | package | what it is |", "|---|---|---|", *rows])


def _rows(package: Path, name: str) -> Iterator[str]:
    path = package / name
    if not path.is_dir():
        yield f"| `{name}` | {_first_line(path.with_suffix('.py'))} |"
        return
    for folder in sorted({each.parent for each in path.rglob("__init__.py")}):
        indent = "&emsp;" * len(folder.relative_to(path).parts)
        yield f"| {indent}`{folder.relative_to(package).as_posix()}` | {_first_line(folder / '__init__.py')} |"


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def with_drawing(document: str, drawn: str) -> str:
    """The document with the drawing in its place. Raises ValueError where the document has no place for it."""
    head, begins, rest = document.partition(BEGINS)
    _, ends, tail = rest.partition(ENDS)
    if not (begins and ends):
        raise ValueError(f"there should be a line {BEGINS} and a line {ENDS}.")
    return f"{head}{BEGINS}\n{drawn}\n{ENDS}{tail}"


@click.command()
@click.option("--write", is_flag=True, help="Put the drawing in its place.")
def main(*, write: bool) -> None:
    """Draw the house."""
    drawn, path = drawing(), CHECKOUT / DOCUMENT
    if write:
        path.write_text(with_drawing(path.read_text(encoding="utf-8"), drawn), encoding="utf-8")
    else:
        click.echo(drawn)


if __name__ == "__main__":
    main()
