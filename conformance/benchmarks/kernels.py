"""A folder of kernels to rank: faults and sound formulations of the catalogue, and cheats, as files without attnspec.

    python conformance/benchmarks/kernels.py FOLDER --count 300 --seed 0     # writes them, and FOLDER/expected.json
    attnspec rank FOLDER --record ranked.jsonl
    python conformance/benchmarks/kernels.py FOLDER --check ranked.jsonl     # which verdicts are not as known

A file composes the pieces of its fault from a copy of the catalogue that lies beside it in `_pieces`: faults share
their stages, so that no file could hold one alone.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import attnspec
import click
from attnspec.core.declaration import Declaration, Limits
from attnspec.core.forms import InputForm
from attnspec.core.keyword import GRAD
from attnspec.core.keywords import OFF
from attnspec.core.nouns import Kind, Level
from attnspec.faults import sound
from attnspec.faults.catalogue import ALL, FURTHER_PROFILES, declaration_of
from attnspec.record.read import read_record
from attnspec.spec.clause import Refutations, Spec, read_refutations
from attnspec.spec.load import load_spec

PACKAGE = "pieces"
"""How the copy of the catalogue is called."""

CHEATS = Path(__file__).parents[1] / "tests" / "cheats"
_FRAMEWORKS = re.compile(r"^\s*(import|from) (torch|jax)", re.MULTILINE)

KERNEL = '''"""{story}"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "_pieces"))

from {package}.faults.{module} import {table}  # noqa: E402  (it lies beside this file)

_ATTEND = {table}["{name}"].function


def attend(query, key, value, *, {parameters}):
    return _ATTEND(query, key, value, {handed})


{declared}
'''


def kernels(count: int, seed: int) -> Mapping[str, tuple[str, str]]:
    """So many files by name: the text of each, and the verdict that it deserves."""
    right = {f"sound_{name}": (_sound(name), "conforms") for name in sound.DENSE}
    files = [path for path in sorted(CHEATS.glob("*.py")) if _is_plain(path)]
    cheats = {f"cheat_{path.stem}": (_cheat(path), "violated") for path in files}
    dense = [fault for fault in ALL if fault.kind is Kind.ATTENTION and fault.form is InputForm.DENSE
             and not fault.backward and not fault.made and fault.other_path is None
             and (fault.planted or _breaks_a_must(fault.name))]
    chosen = random.Random(seed).sample(dense, max(0, min(len(dense), count - len(right) - len(cheats))))
    wrong = {f"fault_{fault.name}": (_text(fault.story, "catalogue", "CATALOGUE", fault.name, declaration_of(fault)),
                                     "violated") for fault in chosen}
    return {**right, **cheats, **wrong}


def _breaks_a_must(fault: str) -> bool:
    """Whether a check of the function alone ends with exit code 1."""
    law, refutations = _law()
    found = refutations.of_fault(fault)
    return any(clause.id in found for clause in law.clauses if clause.level is Level.MUST)


@cache
def _law() -> tuple[Spec, Refutations]:
    law = load_spec()
    return law, read_refutations(law)


def _sound(name: str) -> str:
    found = sound.DENSE[name]
    return _text(found.meaning, "sound", "SOUND", name, sound.declaration_of_sound(found))


def _text(story: str, module: str, table: str, name: str, declared: Declaration) -> str:
    taken = sorted(declared.keywords - {GRAD})
    return KERNEL.format(
        story=story.replace("\\", "/").replace('"', "'"), package=PACKAGE, module=module, table=table, name=name,
        parameters=", ".join(f"{each}={OFF[each]!r}" for each in taken),
        handed=", ".join(f"{each}={each}" for each in taken), declared="\n".join(_attribute_lines(declared)))


def _attribute_lines(declared: Declaration) -> Iterator[str]:
    """What the catalogue declares, as attributes of the function."""
    yield f"attend.dtypes = {[dtype.value for dtype in declared.dtypes]!r}"
    yield f"attend.conventions = {dict(declared.conventions)!r}"
    why = {"reason": "the catalogue declares it"}
    precision = {dtype.value: {**words, **why} for dtype, words in declared.precision.items()}
    yield f"attend.precision = {precision!r}"
    lacking = {profile for keyword, profile in FURTHER_PROFILES.items() if keyword not in declared.keywords - {GRAD}}
    taken = {profile for keyword, profile in FURTHER_PROFILES.items() if keyword in declared.keywords - {GRAD}}
    yield f"attend.claims = {[claim for claim in declared.claims if claim not in lacking - taken]!r}"
    plain = Limits()
    yield from (f"attend.{each.name} = {getattr(declared.limits, each.name)!r}" for each in fields(Limits)
                if getattr(declared.limits, each.name) != getattr(plain, each.name))


def _is_plain(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return "def attend(" in text and not _FRAMEWORKS.search(text)


def _cheat(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("from honest import", "from _honest import")


def write_pieces(folder: Path) -> None:
    """Copy the modules that the catalogue consists of, by another name."""
    source = Path(attnspec.__file__).parent
    loaded = [module.__file__ for name, module in sys.modules.items()
              if name.partition(".")[0] == "attnspec" and _is_piece(name) and module.__file__]
    for file in map(Path, loaded):
        target = folder / "_pieces" / PACKAGE / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(re.sub(r"\battnspec\.", f"{PACKAGE}.", file.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "_pieces" / PACKAGE / "__init__.py").write_text('"""Pieces of kernels."""\n', encoding="utf-8")


def _is_piece(name: str) -> bool:
    return name.split(".")[1:2] in (["core"], ["faults"]) or name in {"attnspec.problems", "attnspec.problems.problem"}


def wrong_verdicts(expected: Mapping[str, str], record: Path) -> Iterator[str]:
    """What a record says otherwise, in a line each. A cheat may be refused, too: then it is not judged."""
    found = {Path(rank.subject.rpartition(":")[0]).stem: rank for rank in read_record(record).ranks}
    for name, verdict in expected.items():
        rank = found.get(name)
        if rank is None:
            yield f"{name}: is not in the record"
        elif rank.verdict.value != verdict and not (name.startswith("cheat_") and rank.verdict.value == "not_judged"):
            yield f"{name}: {rank.verdict.value}, not {verdict}. {rank.first or rank.reason or rank.lost}"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--count", default=300, show_default=True, help="How many kernels.")
@click.option("--seed", default=0, show_default=True, help="Which faults are chosen.")
@click.option("--check", "record", type=click.Path(path_type=Path), help="Compare this record with what is expected.")
def main(folder: Path, count: int, seed: int, record: Path | None) -> None:
    """Write a folder of kernels, or compare a ranking of one with what is known of it."""
    if record:
        expected: Mapping[str, str] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        lines: Sequence[str] = list(wrong_verdicts(expected, record))
        click.echo("\n".join([*lines, f"{len(expected) - len(lines)} of {len(expected)} verdicts are right."]))
        return
    folder.mkdir(parents=True)
    every = kernels(count, seed)
    for name, (text, _) in every.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    shutil.copy(CHEATS / "honest.py", folder / "_honest.py")
    write_pieces(folder)
    (folder / "expected.json").write_text(
        json.dumps({name: verdict for name, (_, verdict) in every.items()}, indent=1) + "\n", encoding="utf-8")
    click.echo(f"{len(every)} kernels in {folder}.")


if __name__ == "__main__":
    main()
