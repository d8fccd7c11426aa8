"""Reads the folder `spec/`, and the files of `--spec-add`, to a Spec."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from attnspec.core import paths
from attnspec.core.conventions import PROFILES
from attnspec.core.errors import FileLocation, SpecError, quote_value
from attnspec.core.forms import EVERY_KEYWORD
from attnspec.core.nouns import Level
from attnspec.spec.clause import BibliographyEntry, Citation, Clause, DtypeCoverage, Spec, Word
from attnspec.spec.yaml_lines import Fields, Located, describe, parse_yaml, read_bytes, shown_path

OWN_POOL = "own"  # of the clauses of an added file that name none
MOST_FAULTS = 4  # under `refuted_by`: those that teach; spec/refutations.json names all
LONGEST_ID = 80  # characters: it stands in tests' names, in commands and in tables
LONGEST_QUOTE = 120  # characters: it shows where a sentence stands, it does not replace the source
CLAUSE_KEYS: Mapping[str, str] = {
    "id": "the stable name, `theme.words_of_it`; tests, deviations and reports refer to it",
    "level": "must, should or may (RFC 2119)",
    "profile": "the group of clauses that an implementation claims",
    "says": "the claim in one sentence, printed as it stands wherever the clause is reported",
    "formula": "the claim in LaTeX",
    "because": "where the sentence comes from",
    "needs": "optional keywords that the subject must take, besides those that are always in use",
    "given": "the named problem, what differs from it, and further drawn values",
    "runs": "chains of transforms by name; without it one run `original` of no transform",
    "then": "relations between what is observed of the runs",
    "refuted_by": f"faults that must violate this clause: at most {MOST_FAULTS}, "
                  "the most instructive",
    "glance": "at how many dtypes all its cases are tried: one, or every dtype where the verdict "
              "depends on the dtype",
    "pool": "clauses of one pool share out the pairs of sizes; a new clause changes the sizes of its own pool alone",
    "note": "what a reader should know besides",
}
CITATION_KEYS: Mapping[str, str] = {
    "cite": "the source's key in spec/bibliography.yaml",
    "at": "the section or heading",
    "quote": f"the source's own words, at most {LONGEST_QUOTE} characters",
    "translation": "the quote in English, where it is in another language",
    "note": "what the source says there, in our words",
}
ID = r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*)+"
NAME = r"[a-z][a-z0-9_]*"
_ID, _NAME = re.compile(ID), re.compile(NAME)
_SENTENCE_ENDS_WITHIN = re.compile(r"[.!?]\s+\S")


@dataclass(frozen=True, slots=True)
class Context:
    """What clauses refer to by name."""

    problems: Mapping[str, Word]
    bibliography: Mapping[str, BibliographyEntry]


@dataclass(frozen=True, slots=True)
class _GivenWords:
    problem: str
    word: Word
    draw: Mapping[str, str]
    always: frozenset[str]


def read_problems(document: Located) -> dict[str, Word]:
    """The named problems of `spec/problems.yaml`, each a domain word. Raises SpecError."""
    fields = Fields(document, "the file of problems")
    fields.refuse_other_keys({"problems"})
    return named_problems(fields)


def named_problems(fields: Fields, *, optional: bool = False) -> dict[str, Word]:
    """The problems under `problems`, by name. Raises SpecError."""
    problems = fields.inner("problems", optional=optional)
    return {name: _problem(name, problem) for name, problem in problems.read_named("the problem")}


def read_clause(fields: Fields, theme: str, context: Context) -> Clause:
    """The clause in the mapping. Without a theme, its id names one.

    Raises SpecError with file, line and the nearest valid name.
    """
    fields.refuse_other_keys(CLAUSE_KEYS)
    identity = _id(fields)
    fields = replace(fields, description=f"the clause {identity!r}")
    given_words = _merge_given(fields.inner("given", "`given`"), context)
    return Clause(
        id=identity, theme=theme or identity.partition(".")[0],
        level=fields.choice("level", Level),
        profile=fields.one_of("profile", PROFILES), says=_read_says(fields),
        formula=fields.text("formula", ""), because=_because(fields, context),
        needs=given_words.always | frozenset(_keywords(fields, "needs")),
        problem=given_words.problem, given=given_words.word, draw=given_words.draw,
        runs=_runs(fields), then=_read_relations(fields),
        refuted_by=_refuted_by(fields), note=fields.text("note", ""),
        glance=fields.choice("glance", DtypeCoverage, DtypeCoverage.ONE_DTYPE),
        pool=fields.text("pool", "" if theme else OWN_POOL),
        where=fields.place(), places=fields.mapping.places)


def _refuted_by(fields: Fields) -> tuple[str, ...]:
    names = fields.texts("refuted_by", ())
    if len(names) > MOST_FAULTS:
        raise fields.complain("refuted_by", f"names {len(names)} faults. Name the {MOST_FAULTS} that teach most; "
                              "spec/refutations.json names all.")
    return names


def _problem(name: str, fields: Fields) -> Word:
    if not _NAME.fullmatch(name):
        message = f"{quote_value(name)} is not a name for a problem: lower-case letters, digits and _ only."
        raise SpecError(message, where=fields.place())
    fields.text("kind")
    return Word(name, fields.mapping, fields.place())


def _id(fields: Fields) -> str:
    identity = fields.text("id")
    if not _ID.fullmatch(identity):
        raise fields.complain("id",
                              "should look like causal.no_lookahead (lower case, a dot), not "
                              f"{quote_value(identity)}.")
    if len(identity) > LONGEST_ID:
        raise fields.complain("id", f"has {len(identity)} characters; {LONGEST_ID} are the most.")
    return identity


def _read_says(fields: Fields) -> str:
    sentence = " ".join(fields.text("says").split())
    if not sentence.endswith("."):
        raise fields.complain("says", "should end with a full stop.")
    if _SENTENCE_ENDS_WITHIN.search(sentence):
        raise fields.complain("says", "should be one sentence; put the rest into 'note'.")
    return sentence


def _because(fields: Fields, context: Context) -> tuple[Citation, ...]:
    citations = tuple(_citation(citation, context)
                      for citation in fields.read_each("because", "a citation"))
    if not citations:
        raise fields.complain("because",
                              "is empty; every clause cites where its sentence comes from.")
    return citations


def _citation(fields: Fields, context: Context) -> Citation:
    fields.refuse_other_keys(CITATION_KEYS)
    key = fields.one_of("cite", context.bibliography, kind="source of the bibliography")
    quote, translation, note = (fields.text(name, "") for name in ("quote", "translation", "note"))
    if len(quote) > LONGEST_QUOTE:
        raise fields.complain("quote", f"has {len(quote)} characters; {LONGEST_QUOTE} are enough to find the place.")
    if not (quote or note):
        raise SpecError(f"the citation of {key!r} needs a 'quote' or a 'note'.",
                        where=fields.place())
    if translation and not quote:
        raise fields.complain("translation", "translates nothing: the citation has no 'quote'.")
    return Citation(cite=key, at=fields.text("at", ""), quote=quote, translation=translation,
                    note=note, where=fields.place())


def _merge_given(fields: Fields, context: Context) -> _GivenWords:
    """The arguments of the named problem, overridden by those of the clause."""
    name = fields.one_of("problem", context.problems)
    base = context.problems[name]
    arguments = Located(fields.place())
    for source in (base.args, _less_keys(fields.mapping, "problem", "draw")):
        arguments.update(source)
        arguments.places.update(source.places if isinstance(source, Located) else {})
    return _GivenWords(name, Word(base.name, arguments, fields.place()), _draw(fields),
                       _read_required_keywords(arguments))


def _read_required_keywords(arguments: Located) -> frozenset[str]:
    fields = Fields(arguments, "`given`")
    _keywords(fields, "sometimes")
    return frozenset(_keywords(fields, "always"))


def _draw(fields: Fields) -> Mapping[str, str]:
    draws = fields.inner("draw", "`draw`", optional=True)
    for key in draws.mapping:
        draws.text(_name(draws, key))
    return draws.mapping


def _keywords(fields: Fields, key: str) -> tuple[str, ...]:
    """The optional keywords of a subject in this field."""
    names = fields.texts(key, ())
    for index, name in enumerate(names):
        if name not in EVERY_KEYWORD:
            where = fields.mapping[key].place_of(index)
            raise SpecError.unknown("keyword of a subject", name, EVERY_KEYWORD, where=where)
    return names


def _read_relations(fields: Fields) -> tuple[Word, ...]:
    if claims := _words(fields, "then"):
        return claims
    raise fields.complain("then", "is empty; a clause must claim something.")


def _runs(fields: Fields) -> dict[str, tuple[Word, ...]]:
    if "runs" not in fields.mapping:
        return {"original": ()}
    runs = fields.inner("runs", "`runs`")
    return {_name(runs, name): _words(runs, name) for name in runs.mapping}


def _words(fields: Fields, key: str) -> tuple[Word, ...]:
    """A list of words: `{name: {argument: value, …}}`, or a bare name without arguments."""
    fields.absent(key)
    return tuple(_word(value, place) for _, value, place in fields.entries(key, "words"))


def _word(value: object, place: FileLocation) -> Word:
    if isinstance(value, str) and value:
        return Word(value, Located(place), place)
    if not isinstance(value, Located):
        raise SpecError(f"a word with its arguments is expected, not {describe(value)}.",
                        where=place)
    if len(value) != 1:
        what = f"{len(value)} words: {', '.join(value)}" if value else "none"
        raise SpecError(f"one word with its arguments is expected; found {what}.", where=place)
    [(name, arguments)] = value.items()
    if arguments is None:
        arguments = Located(place)
    if not isinstance(arguments, Located):
        raise SpecError(f"the arguments of {name!r} should be a mapping, "
                        f"not {describe(arguments)}.", where=place)
    return Word(name, arguments, place)


def _name(fields: Fields, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SpecError(f"{quote_value(name)} is not a name: lower-case letters, digits and _ "
                        "only.", where=fields.place(name))
    return name


def _less_keys(mapping: Located, *keys: str) -> Located:
    """The mapping without these keys, with its places."""
    rest = Located(mapping.place)
    for key in mapping:
        if key not in keys:
            rest[key], rest.places[key] = mapping[key], mapping.place_of(key)
    return rest


KINDS: Mapping[str, str] = {
    "article": "a web page that explains the subject",
    "notes": "somebody's reading notes on a paper",
    "paper": "a scientific paper or preprint",
    "book": "a book",
    "manual": "a library's own documentation",
    "standard": "a specification",
    "issue": "a public bug report or change",
}
_SOURCE_KEYS = frozenset({"title", "kind", "url", "author", "year", "note"})
_KEY = re.compile(r"[a-z][a-z0-9_]*")


def read_bibliography(document: Located) -> dict[str, BibliographyEntry]:
    """The sources of the file, by key. Raises SpecError."""
    fields = Fields(document, "the bibliography")
    fields.refuse_other_keys({"sources"})
    return read_sources(fields)


def read_sources(fields: Fields, *, optional: bool = False) -> dict[str, BibliographyEntry]:
    """The sources under `sources`, by key. Raises SpecError with file and line."""
    sources = fields.inner("sources", "the list of sources", optional=optional)
    return {key: _source(key, source) for key, source in sources.read_named("the source")}


def _source(key: str, fields: Fields) -> BibliographyEntry:
    fields.refuse_other_keys(_SOURCE_KEYS)
    if not _KEY.fullmatch(key):
        raise SpecError(f"{quote_value(key)} is not a key for a source: lower-case letters, digits and _ only.",
                        where=fields.place())
    return BibliographyEntry(
        key=key, title=fields.text("title"),
        kind=fields.one_of("kind", KINDS, kind="kind of source"),
        url=fields.url("url", ""), author=fields.text("author", ""), year=_year(fields),
        note=fields.text("note", ""))


def _year(fields: Fields) -> str:
    if "year" not in fields.mapping:
        return ""
    year = fields.integer("year")
    if not 1000 <= year <= 9999:
        raise fields.complain("year", f"should have four digits, not {year}.")
    return str(year)


_COMMON = ("bibliography.yaml", "problems.yaml", "spec.yaml")  # all others have a theme's clauses


def _give_up(problem: SpecError) -> None:
    raise problem


def _digest(*files: bytes) -> str:
    return hashlib.sha256(b"".join(files)).hexdigest()


def load_spec(folder: Path | str | None = None, added: Iterable[Path | str] = (), *,
              tell: Callable[[SpecError], None] = _give_up) -> Spec:
    """The law in `folder` (default: the law of attnspec), with the clauses of `added` files.

    Raises SpecError (file, line, cause, nearest name) at the first error. One within a clause is
    passed to `tell`; if `tell` returns, the clause is left out. Words and their arguments are
    looked up only when the spec is compiled.
    """
    folder = Path(folder) if folder else paths.folder("spec")
    files, own = _files(folder), read_added(added)
    if own or tell is not _give_up:
        return _law(folder, files, own, tell)
    # places are told from the working folder
    key = folder, shown_path(folder), (*files, _digest(*files.values()))
    if key not in _read_laws:
        law = _law(folder, files, (), _give_up)
        for earlier in list(_read_laws)[:-1]:
            del _read_laws[earlier]
        _read_laws[key] = law
    return _read_laws[key]


_LawKey: TypeAlias = tuple[Path, str, tuple[str, ...]]
_read_laws: dict[_LawKey, Spec] = {}
"""The two laws that were read last: a process may make many engines."""


def hand_over_law(file: Path) -> None:
    """Writes what was read of the law to a file, for other processes of the same run."""
    import pickle  # noqa: PLC0415  (weight: no other command needs it)

    file.write_bytes(pickle.dumps(_read_laws))


def take_over_law(file: Path) -> None:
    """Takes the law from another process of this run: four times as fast as reading it.

    It is read anew if its files have changed.
    """
    import pickle  # noqa: PLC0415  (as above)

    _read_laws.update(pickle.loads(file.read_bytes()))


def _law(folder: Path, files: Mapping[str, bytes], own: Sequence[Added],
         tell: Callable[[SpecError], None]) -> Spec:
    documents = {name: parse_yaml(data, shown_path(folder / name)) for name, data in files.items()}
    context = _context(documents, own)
    parts = [_theme(name, documents[name], context, tell) for name in files if name not in _COMMON]
    parts += [added_clauses(file, context, tell) for file in own]
    clauses = _unique(chain.from_iterable(parts))
    digest = _digest(*files.values(), *(file.data for file in own))
    return Spec(version=_version(documents["spec.yaml"]), digest=digest, clauses=clauses,
                bibliography=context.bibliography, problems=context.problems,
                added=tuple(file.name for file in own), folder=folder)


def _context(documents: Mapping[str, Located], own: Iterable[Added]) -> Context:
    """The problems and sources of all files together."""
    problems = read_problems(documents["problems.yaml"])
    bibliography = read_bibliography(documents["bibliography.yaml"])
    for file in own:
        fields = Fields(file.document, "an added file")
        problems |= named_problems(fields, optional=True)
        bibliography |= read_sources(fields, optional=True)
    own_documents = [file.document for file in own]
    _refuse_two("problems", "problem", [documents["problems.yaml"], *own_documents])
    _refuse_two("sources", "source", [documents["bibliography.yaml"], *own_documents])
    return Context(problems=problems, bibliography=bibliography)


def _refuse_two(key: str, noun: str, documents: Iterable[Located]) -> None:
    """Raises SpecError if a later document gives a name under `key` another meaning."""
    first: dict[str, tuple[object, FileLocation]] = {}
    for document in documents:
        entries: Located = document.get(key) or Located(document.place)
        for name, meaning in entries.items():
            earlier, place = first.setdefault(name, (meaning, entries.place_of(name)))
            if meaning != earlier:
                raise SpecError(f"there are two {noun}s {name!r}; the first is at {place}. Rename this one.",
                                where=entries.place_of(name))


def _files(folder: Path) -> dict[str, bytes]:
    """Every YAML file of the folder, by name and in its order; the common three must exist."""
    if not folder.is_dir():
        message = "there is no such folder; a spec is a folder of YAML files."
        if folder.exists():
            message = ("is not a folder; a spec is a folder of YAML files. Clauses of your own "
                       "are added by --spec-add.")
        raise SpecError(message, where=FileLocation(shown_path(folder)))
    names = {path.name for path in folder.iterdir() if path.suffix == ".yaml"}
    if not names.difference(_COMMON):
        raise SpecError("holds no clauses: there is no file of a theme, such as causal.yaml.",
                        where=FileLocation(shown_path(folder)))
    if stray := sorted(path.name for path in folder.glob("*.yml")):
        raise SpecError("the files of a spec end in .yaml; rename this one.",
                        where=FileLocation(shown_path(folder / stray[0])))
    return {name: read_bytes(folder / name) for name in sorted(names.union(_COMMON))}


def _theme(
    file: str, document: Located, context: Context, tell: Callable[[SpecError], None],
) -> Iterator[Clause]:
    fields = Fields(document, "a theme's file")
    fields.refuse_other_keys({"theme", "clauses"})
    theme, file_theme = fields.text("theme"), file.removesuffix(".yaml")
    if theme != file_theme:
        raise fields.complain("theme", f"should be {file_theme!r}, the name of its file, "
                                       f"not {quote_value(theme)}.")
    for clause in fields.read_each("clauses", "a clause"):
        try:
            yield _refutable(read_clause(clause, theme, context))
        except SpecError as problem:
            tell(problem)


def _refutable(clause: Clause) -> Clause:
    """The clause, if a fault is known that violates it. Raises SpecError."""
    if clause.level is Level.MUST and not clause.refuted_by:
        raise SpecError(f"the clause {clause.id!r} needs 'refuted_by': "
                        "a must clause names a fault that violates it.",
                        where=clause.place_of("refuted_by"))
    return clause


def _unique(clauses: Iterator[Clause]) -> tuple[Clause, ...]:
    """The clauses in order. Raises SpecError if two have one id."""
    by_id: dict[str, Clause] = {}
    for clause in clauses:
        if clause.id in by_id:
            message = (f"there are two clauses {clause.id!r}; "
                       f"the first is at {by_id[clause.id].where}. Rename this one.")
            raise SpecError(message, where=clause.where)
        by_id[clause.id] = clause
    return tuple(by_id.values())


def _version(document: Located) -> str:
    fields = Fields(document, "the spec")
    fields.refuse_other_keys({"version"})
    return fields.text("version")


OWN = " A clause of your own is found with --spec-add FILE."
"""Added to a message about an unknown clause."""

KEYS = ("clauses", "sources", "problems")
_SUFFIXES = (".yaml", ".yml")
_WANTED = "a mapping with the key `clauses` is expected"


@dataclass(frozen=True, slots=True)
class Added:
    """A file of the user's own clauses. name: as the user knows it."""

    name: str
    data: bytes
    document: Located


def read_added(paths: Iterable[Path | str]) -> tuple[Added, ...]:
    """The files, and those in the folders, in order and each once. Raises SpecError."""
    return tuple(map(_read_added_file, added_files(paths)))


def added_files(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """The files, and the YAML files in the folders. Raises SpecError for a folder without."""
    files: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(Path(path)):
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def added_clauses(added: Added, context: Context,
                  tell: Callable[[SpecError], None]) -> Iterator[Clause]:
    """The clauses of a file. An error in one is passed to `tell`. Raises SpecError."""
    fields = Fields(added.document, "an added file")
    clauses = tuple(fields.read_each("clauses", "a clause"))
    if not clauses:
        raise fields.complain("clauses", "is empty; write at least one clause.")
    for clause in clauses:
        try:
            yield read_clause(clause, "", context)
        except SpecError as problem:
            tell(problem)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    if not files:
        raise SpecError("this folder should hold your own clauses, but there is no YAML file in it.",
                        where=FileLocation(shown_path(path)))
    return files


def _read_added_file(path: Path) -> Added:
    data = read_bytes(path)
    document = parse_yaml(data, shown_path(path), wanted=_WANTED)
    if "theme" in document:
        raise SpecError("a file of your own clauses has no 'theme': leave it out. The part of an "
                        "id before the dot is its theme.", where=document.place_of("theme"))
    Fields(document, "an added file").refuse_other_keys(KEYS)
    return Added(shown_path(path), data, document)
