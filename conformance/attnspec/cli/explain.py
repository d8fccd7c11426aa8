"""The commands that look something up: `list`, and `explain` for a clause, a word or a fault.

No framework is imported for it, and NumPy only for faults, families and masks.
"""

from __future__ import annotations

import fnmatch
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from attnspec.cli import completion
from attnspec.cli.completion import LINE_WIDTH, explain_word, list_vocabulary, wrap_paragraph
from attnspec.cli.options import IMPLEMENTATIONS, JSON, SPEC, SPEC_ADD, OneOf
from attnspec.core.conventions import PROFILES
from attnspec.core.declaration import Limits
from attnspec.core.errors import CANNOT_RUN, AttnspecError, SpecError, UsageError, either, near_misses
from attnspec.core.paths import folder
from attnspec.core.texts import count_noun, escape_hidden
from attnspec.faults.size_family import SEEDED
from attnspec.spec.clause import FILE, Citation, Clause, Spec, hint_of_theme, read_refutations, themes_of
from attnspec.spec.load import OWN, added_files, load_spec
from attnspec.spec.yaml_lines import shown_path

if TYPE_CHECKING:
    from attnspec.faults.fault import Fault
    from attnspec.trials.compile import Check

T = TypeVar("T")


def collect_mistakes(look: Callable[[], T]) -> tuple[T | None, list[AttnspecError]]:
    """Calls a function; returns its result, and the AttnspecError that it raised, if any."""
    try:
        return look(), []
    except AttnspecError as problem:
        return None, [problem]


@contextmanager
def telling_own(law: Spec, clauses: Iterable[Clause]) -> Iterator[None]:
    """Says first what `lint` would say of own clauses, and if it does, ends with exit code 2.
    NumPy is imported only if there are own clauses.
    """
    own = tuple(clause for clause in clauses if clause.where.file in law.added)
    mistakes = list(find_badly_put(replace(law, clauses=own))) if own else []
    for problem in mistakes:
        click.echo(escape_hidden(str(problem)), err=True)
    yield
    if mistakes:
        click.get_current_context().exit(CANNOT_RUN)


def find_badly_put(law: Spec) -> Iterator[AttnspecError]:
    """Yields the mistake in the words of each clause, or why it claims less than it seems."""
    from attnspec.faults.catalogue import CATALOGUE  # noqa: PLC0415  (weight: NumPy)
    from attnspec.trials.compile import compile_spec  # noqa: PLC0415  (weight: NumPy)
    from attnspec.vocabulary.tables import empty_claims  # noqa: PLC0415  (weight: NumPy)

    for clause in law.clauses:
        checks, mistakes = collect_mistakes(partial(compile_spec, replace(law, clauses=(clause,)),
                                                    faults=CATALOGUE.keys()))
        yield from mistakes
        for check in (checks or {}).values():
            yield from _reason_not_posable(check)
        if not mistakes:
            yield from empty_claims(clause)


def _reason_not_posable(check: Check) -> Iterator[SpecError]:
    """Complains of a clause for which no problem exists, so that it never tests anything."""
    from attnspec.problems.choices import has_any  # noqa: PLC0415  (weight: NumPy)

    if not any(has_any(check.domain, Limits(grouped=each)) for each in (True, False)):
        yield SpecError(f"{check.clause.id!r} is never tested: no size that is drawn has what `given` asks for "
                        "(min_…, lengths, grouped, inputs). Ask for less.",
                        where=check.clause.place_of("given"))


@click.command()
@click.argument("name", metavar="NAME", shell_complete=completion.explainable)
@SPEC
@SPEC_ADD
@JSON
def explain(name: str, spec: str, spec_add: tuple[str, ...], *, as_json: bool) -> None:
    """Explain a clause: its sentence, its sources, its formula, its YAML.

    Or explain a word that clauses are written with ('agree', 'permute_keys'), or a fault (a wrong
    attention).

    A pattern ('masking.*') explains all clauses that match; if none does, all faults that match.
    So does a theme ('masking').
    """
    law = load_spec(spec, spec_add)
    name = f"{name}.*" if f"{name}.*" in themes_of(each.id for each in law.clauses) else name
    clauses = [each for each in law.clauses if fnmatch.fnmatchcase(each.id, name)]
    with telling_own(law, clauses):
        if not clauses:
            _tell_others(name, law)
        elif as_json:
            from attnspec.record.codec import encode  # noqa: PLC0415  (weight: records)
            from attnspec.runner.judge import describe_clause  # noqa: PLC0415  (weight: what runs subjects)

            data = [encode(describe_clause(clause, law)) for clause in clauses]
            click.echo(json.dumps(data if "*" in name else data[0], ensure_ascii=False, indent=1))
        else:
            home = Path(spec) if spec else folder("spec")
            _print_texts(_explain_clause(clause, law, file_of(clause, home, spec_add))
                         for clause in clauses)


def _print_texts(texts: Iterable[Iterable[str]]) -> None:
    """Prints texts with a line between them."""
    for number, lines in enumerate(texts):
        if number:
            click.echo(f"\n{'─' * LINE_WIDTH}\n")
        click.echo(escape_hidden("\n".join(lines)))


def _explain_clause(clause: Clause, law: Spec, file: Path) -> Iterator[str]:
    yield f"{clause.id}  ({clause.level.value}, profile {clause.profile})  {clause.where}"
    yield ""
    yield from wrap_paragraph(clause.says)
    rows = {"formula": clause.formula, "needs": ", ".join(sorted(clause.needs)),
            "note": clause.note}
    for name, text in rows.items():
        if text:
            yield ""
            yield from wrap_paragraph(f"{name}: {text}")
    yield ""
    yield "because:"
    # what everybody reads comes first
    for citation in sorted(clause.because,
                           key=lambda each: not law.bibliography[each.cite].title.isascii()):
        yield from _format_citation(citation, law)
    yield from _format_convictions(clause, law)
    yield ""
    yield f"{clause.where}:"
    yield textwrap.indent(yaml_of(clause, file), "  ")


def _format_convictions(clause: Clause, law: Spec) -> Iterator[str]:
    if clause.refuted_by:
        yield ""
        yield from wrap_paragraph(f"faults that violate it: {', '.join(clause.refuted_by)}  "
                                  "(`attnspec explain NAME` describes each)")
    if convicted := read_refutations(law).convictions.get(clause.id, {}):
        faults = count_noun(len(convicted), "fault")
        yield from wrap_paragraph(f"detects {faults} of the catalogue in all; they are listed in "
                                  f"{shown_path(law.folder / FILE)}")


def _format_citation(citation: Citation, law: Spec) -> Iterator[str]:
    source = law.bibliography[citation.cite]
    title = source.title
    if author := ", ".join(filter(None, (source.author, source.year))):
        title += f" ({author})"
    if citation.at:
        title += f", at {citation.at!r}"
    yield from wrap_paragraph(title)
    if citation.quote:
        yield f"    “{citation.quote}”"
    if citation.translation:
        yield f"    in English: “{citation.translation}”"
    for text in filter(None, (citation.note, source.url)):
        yield f"    {text}"


def file_of(clause: Clause, home: Path, added: Iterable[str]) -> Path:
    """The file that holds a clause: of the spec's folder, or an added one."""
    files = (*home.glob("*.yaml"), *added_files(added))
    return next(file for file in files if shown_path(file) == clause.where.file)


def yaml_of(clause: Clause, file: Path) -> str:
    """The text of a clause in its file, up to the next clause."""
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    first = clause.where.line - 1
    indent = len(lines[first]) - len(lines[first].lstrip())
    following = next((number for number, line in enumerate(lines[first + 1:], start=first + 1)
                      if line.strip() and len(line) - len(line.lstrip()) <= indent), len(lines))
    return textwrap.dedent("\n".join(lines[first:following])).rstrip()


def _tell_others(name: str, law: Spec) -> None:
    """Explains a word or faults. Raises UsageError if nothing has this name."""
    known = {word.name: word for word in list_vocabulary()}
    if name in known:
        _print_texts([explain_word(known[name], law)])
        return
    from attnspec.faults.catalogue import CATALOGUE, fault_named  # noqa: PLC0415  (weight: NumPy, only for faults)

    bare, at, seed = name.partition(SEEDED)
    if not (faults := fnmatch.filter(CATALOGUE, bare)):
        raise UsageError(f"{name!r} is neither a clause nor a word nor a fault."
                         f"{_suggest_nearest(name, law, (*known, *CATALOGUE))}{OWN}")
    _print_texts([_tell_story_of_fault(fault_named(f"{each}{at}{seed}"), law) for each in faults])


def _tell_story_of_fault(fault: Fault, law: Spec) -> Iterator[str]:
    yield (f"{fault.name}  (a fault: a wrong implementation, made to test the clauses; "
           f"stage {fault.stage})\n")
    paragraphs = (fault.story, f"it shows with: {fault.reach}", fault.link, *_convicting(fault, law))
    for text in paragraphs:
        yield "\n".join(wrap_paragraph(text))


def _convicting(fault: Fault, law: Spec) -> Iterator[str]:
    """Yields the clauses that name a fault, and those that detect it, with the dtypes."""
    from attnspec.faults.witnesses import clauses_for  # noqa: PLC0415  (weight: manifests, only for faults)

    if fault.planted:
        yield f"tried on it: {', '.join(clauses_for(law, read_refutations(law), fault.name))}"
        return
    naming = [clause.id for clause in law.clauses if fault.name in clause.refuted_by]
    yield f"clauses that name it: {', '.join(naming) or 'none'}"
    dtypes_of = read_refutations(law).of_fault(fault.name)
    most = max(map(len, dtypes_of.values()), default=0)
    names = []
    for name, dtypes in dtypes_of.items():
        at = f" ({' '.join(dtype.value for dtype in dtypes)})" if len(dtypes) < most else ""
        names.append(f"{name}{at}")
    if names:
        yield f"detected by {count_noun(len(names), 'clause')}: {', '.join(names)}"


def _suggest_nearest(name: str, law: Spec, others: Iterable[str]) -> str:
    ids = [clause.id for clause in law.clauses]
    themes = themes_of(ids) if "*" in name else ()
    suggestion = hint_of_theme(name, ids)
    if not suggestion and (near := near_misses(name, [*ids, *themes, *others])):
        suggestion = f" Did you mean {either(near)}?"
    return f"{suggestion} `attnspec list clauses` and `attnspec list faults` name them all."


Row = Mapping[str, str]
Law = Callable[[], Spec]  # read where it is asked for only
COLUMN_GAP = "  "
MOST_CHOICES = 6  # values of an argument that are listed


def _list_subjects(implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.subjects.registry import registered_subjects  # noqa: PLC0415  (weight: manifests)

    for name, subject in registered_subjects(implementations).items():
        library = subject.library
        yield {"id": name, "title": subject.title,
               "dtypes": " ".join(dtype.value for dtype in subject.declaration.dtypes),
               "from": f"{library.distribution} {library.version}".strip(),
               "written for": library.versions,
               "cannot run": subject.why_missing}


def _list_clauses(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for clause in law().clauses:
        yield {"id": clause.id, "level": clause.level.value, "profile": clause.profile,
               "says": clause.says}


def _list_profiles(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    clauses = law().clauses
    for name, meaning in PROFILES.items():
        yield {"name": name, "clauses": str(sum(clause.profile == name for clause in clauses)),
               "meaning": meaning}


def _list_faults(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    """Lists faults with the clauses that `check` tries on each; too many detect it."""
    from attnspec.faults.witnesses import all_faults, clauses_for  # noqa: PLC0415  (weight: as above)

    spec = law()
    found = read_refutations(spec)
    for name in all_faults(spec, found):
        count = len(found.of_fault(name))
        yield {"name": name, "detected by": count_noun(count, "clause") if count else "",
               "put to": " ".join(clauses_for(spec, found, name))}


def _list_words(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    for name, kind, schema in list_vocabulary():
        yield {"word": name, "kind": kind, "arguments": _format_arguments(schema),
               "meaning": _first_sentence(str(schema.get("description", "")))}


def _list_problems(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for name, problem in law().problems.items():
        yield {"name": name,
               "is": ", ".join(f"{key}: {_format_in_one_line(value)}"
                               for key, value in problem.args.items())}


def _format_in_one_line(value: object) -> str:
    """Writes a value as YAML has it on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def _list_families(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.families import FAMILIES  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": family.meaning} for name, family in FAMILIES.items())


def _list_masks(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.make import MASKS  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": mask.meaning} for name, mask in MASKS.items())


def _list_biases(_implementations: Sequence[str], _law: Law) -> Iterator[Row]:
    from attnspec.problems.make import BIASES  # noqa: PLC0415  (weight: NumPy)

    yield from ({"name": name, "meaning": bias.meaning} for name, bias in BIASES.items())


def _list_sources(_implementations: Sequence[str], law: Law) -> Iterator[Row]:
    for source in law().bibliography.values():
        yield {"key": source.key, "kind": source.kind, "title": source.title, "url": source.url}


def _format_arguments(word: Mapping[str, Any]) -> str:
    """Names the arguments and the values of a few; brackets mark what may be left out."""
    required = word.get("required", ())
    named = {name: f"{name}{_format_choices(value)}"
             for name, value in word.get("properties", {}).items()}
    return ", ".join(text if name in required else f"[{text}]" for name, text in named.items())


def _format_choices(value: Mapping[str, Any]) -> str:
    """`: exact|rounding` for an argument that takes a few names, or a list of them."""
    names = value.get("enum", value.get("items", {}).get("enum", ()))
    if 0 < len(names) <= MOST_CHOICES:
        return f": {'|'.join(map(str, names))}"
    return ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]


LISTINGS: Mapping[str, Callable[[Sequence[str], Law], Iterator[Row]]] = {
    "subjects": _list_subjects, "clauses": _list_clauses, "profiles": _list_profiles,
    "faults": _list_faults, "words": _list_words, "problems": _list_problems,
    "sources": _list_sources, "families": _list_families, "masks": _list_masks,
    "biases": _list_biases}


@click.command("list")
@click.argument("what", default="subjects", metavar="[WHAT]",
                type=OneOf("thing to list", LISTINGS))
@IMPLEMENTATIONS
@SPEC
@SPEC_ADD
@JSON
def list_(what: str, implementations: tuple[str, ...], spec: str, spec_add: tuple[str, ...], *,
          as_json: bool) -> None:
    """List WHAT: subjects, clauses, profiles or faults.

    Or the words, problems and sources that clauses use. Or families, masks and biases: the ways to
    make the entries of a problem. Without WHAT, subjects.
    """
    law = cache(partial(load_spec, spec, spec_add))
    with telling_own(law(), law().clauses) if spec_add and what == "clauses" else nullcontext():
        rows = list(LISTINGS[what](implementations, law))
        if as_json:
            click.echo(json.dumps(rows, ensure_ascii=False, indent=1))
            return
        for line in format_table(rows):
            click.echo(escape_hidden(line))


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """Writes rows as columns; empty columns are left out."""
    columns = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    widths = {name: max(len(row[name]) for row in rows) for name in columns}
    for row in rows:
        yield COLUMN_GAP.join(row[name].ljust(widths[name]) for name in columns).rstrip()
