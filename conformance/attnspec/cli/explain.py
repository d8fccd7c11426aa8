"""`explain`: everything about one clause, a word of clauses, or the story of one fault."""

from __future__ import annotations

import fnmatch
import json
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attnspec.cli import completion
from attnspec.cli.mistakes import telling_own
from attnspec.cli.options import JSON, SPEC, SPEC_ADD
from attnspec.cli.words import WIDTH, explain_word, list_vocabulary, wrap_paragraph
from attnspec.core.characters import escape_hidden
from attnspec.core.errors import UsageError, either, near_misses
from attnspec.core.paths import folder
from attnspec.faults.size_family import SEEDED
from attnspec.faults.witnesses import clauses_for
from attnspec.record.codec import encode
from attnspec.report.figures import count_noun
from attnspec.runner.texts import text_of
from attnspec.spec.clause import Citation, Clause, Spec, hint_of_theme, themes_of
from attnspec.spec.load import OWN, added_files, load_spec
from attnspec.spec.refutations import FILE, read_refutations
from attnspec.spec.yaml_lines import shown_path

if TYPE_CHECKING:
    from attnspec.faults.fault import Fault

@click.command()
@click.argument("name", metavar="NAME", shell_complete=completion.explainable)
@SPEC
@SPEC_ADD
@JSON
def explain(name: str, spec: str, spec_add: tuple[str, ...], *, as_json: bool) -> None:
    """Explain a clause: its sentence, its sources, its formula, its YAML.

    Or explain a word that clauses are written with ('agree', 'permute_keys'), or a fault (a wrong attention).

    A pattern ('masking.*') explains all clauses that match; if none does, all faults that match. So does a theme
    ('masking').
    """
    law = load_spec(spec, spec_add)
    name = f"{name}.*" if f"{name}.*" in themes_of(each.id for each in law.clauses) else name
    clauses = [each for each in law.clauses if fnmatch.fnmatchcase(each.id, name)]
    with telling_own(law, clauses):
        if not clauses:
            _tell_others(name, law)
        elif as_json:
            told = [encode(text_of(clause, law)) for clause in clauses]
            click.echo(json.dumps(told if _is_pattern(name) else told[0], ensure_ascii=False, indent=1))
        else:
            home = Path(spec) if spec else folder("spec")
            _one_after_another([_explain_clause(clause, law, file_of(clause, home, spec_add)) for clause in clauses])


def _is_pattern(name: str) -> bool:
    return "*" in name


def _one_after_another(texts: Iterable[Iterable[str]]) -> None:
    """Print texts with a line between them."""
    for number, lines in enumerate(texts):
        click.echo(escape_hidden("\n".join([*([f"\n{'─' * WIDTH}\n"] if number else []), *lines])))


def _explain_clause(clause: Clause, law: Spec, file: Path) -> Iterator[str]:
    yield f"{clause.id}  ({clause.level.value}, profile {clause.profile})  {clause.where}"
    yield ""
    yield from wrap_paragraph(clause.says)
    rows = {"formula": clause.formula, "needs": ", ".join(sorted(clause.needs)), "note": clause.note}
    for name, text in rows.items():
        if text:
            yield ""
            yield from wrap_paragraph(f"{name}: {text}")
    yield ""
    yield "because:"
    # what everybody reads comes first
    for citation in sorted(clause.because, key=lambda each: not law.bibliography[each.cite].title.isascii()):
        yield from _source(citation, law)
    yield from _format_convictions(clause, law)
    yield ""
    yield f"{clause.where}:"
    yield textwrap.indent(yaml_of(clause, file), "  ")


def _format_convictions(clause: Clause, law: Spec) -> Iterator[str]:
    """The faults that the clause names, and how many it convicts."""
    if clause.refuted_by:
        yield ""
        yield from wrap_paragraph(f"faults that violate it: {', '.join(clause.refuted_by)}  (`attnspec explain NAME` "
                            "describes each)")
    if convicted := read_refutations(law).convictions.get(clause.id, {}):
        faults = count_noun(len(convicted), "fault")
        yield from wrap_paragraph(f"detects {faults} of the catalogue in all; they are listed in "
                            f"{shown_path(law.folder / FILE)}")


def _source(citation: Citation, law: Spec) -> Iterator[str]:
    source = law.bibliography[citation.cite]
    by = ", ".join(filter(None, (source.author, source.year)))
    at = f", at {citation.at!r}" if citation.at else ""
    yield from wrap_paragraph(f"{source.title}{f' ({by})' if by else ''}{at}")
    in_english = f"in English: “{citation.translation}”" if citation.translation else ""
    for text in (f"“{citation.quote}”" if citation.quote else "", in_english, citation.note, source.url):
        if text:
            yield f"    {text}"


def file_of(clause: Clause, home: Path, added: Iterable[str]) -> Path:
    """The file that holds the clause: one of the law's folder, or an added one."""
    return next(file for file in (*home.glob("*.yaml"), *added_files(added)) if shown_path(file) == clause.where.file)


def yaml_of(clause: Clause, file: Path) -> str:
    """The clause as its file has it: from its own line to the next clause, or to what follows the clauses."""
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    first = clause.where.line - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    following = next((number for number, line in enumerate(lines[first + 1:], start=first + 1)
                      if line.strip() and len(line) - len(line.lstrip()) <= indent), len(lines))
    return textwrap.dedent("\n".join(lines[first:following])).rstrip()


def _tell_others(name: str, law: Spec) -> None:
    """A word or faults. Raises UsageError where there is neither a clause nor a word nor a fault of this name."""
    known = {word.name: word for word in list_vocabulary()}
    if name in known:
        _one_after_another([explain_word(known[name], law)])
        return
    from attnspec.faults.catalogue import CATALOGUE, fault_named  # noqa: PLC0415  (weight: NumPy, only for faults)

    bare, at, seed = name.partition(SEEDED)
    if not (faults := fnmatch.filter(CATALOGUE, bare)):
        raise UsageError(f"{name!r} is neither a clause nor a word nor a fault."
                         f"{_nearest(name, law, (*known, *CATALOGUE))}{OWN}")
    _one_after_another([_story(fault_named(f"{each}{at}{seed}"), law) for each in faults])


def _story(fault: Fault, law: Spec) -> Iterator[str]:
    yield f"{fault.name}  (a fault: a wrong implementation, made to test the clauses; stage {fault.stage})\n"
    for text in (fault.story, f"it shows with: {fault.reach}", fault.link, *_convicting(fault, law)):
        yield "\n".join(wrap_paragraph(text))


def _convicting(fault: Fault, law: Spec) -> Iterator[str]:
    """The clauses that name the fault, and all that convict it, with the dtypes where it is not at all of them."""
    if fault.planted:
        yield f"tried on it: {', '.join(clauses_for(law, read_refutations(law), fault.name))}"
        return
    named = [clause.id for clause in law.clauses if fault.name in clause.refuted_by]
    yield f"clauses that name it: {', '.join(named) or 'none'}"
    found = read_refutations(law).of_fault(fault.name)
    most = max(map(len, found.values()), default=0)
    told = (name if len(dtypes) == most else f"{name} ({' '.join(dtype.value for dtype in dtypes)})"
            for name, dtypes in found.items())
    if found:
        yield f"detected by {count_noun(len(found), 'clause')}: {', '.join(told)}"


def _nearest(name: str, law: Spec, others: Iterable[str]) -> str:
    ids = [clause.id for clause in law.clauses]
    near = near_misses(name, [*ids, *(themes_of(ids) if _is_pattern(name) else ()), *others])
    meant = hint_of_theme(name, ids) or (f" Did you mean {either(near)}?" if near else "")
    return f"{meant} `attnspec list clauses` and `attnspec list faults` name them all."
