"""One clause, one named problem, one word, one source: from located YAML to frozen nouns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from attnspec.core.conventions import PROFILES
from attnspec.core.errors import FileLocation, SpecError, quoted
from attnspec.core.nouns import Level
from attnspec.core.rotary import EVERY_KEYWORD
from attnspec.spec.clause import BibliographyEntry, Citation, Clause, Glance, Word
from attnspec.spec.fields import Fields
from attnspec.spec.yaml_lines import Located, describe

OWN_POOL = "own"  # of the clauses of an added file that name none
MOST_FAULTS = 4  # under `refuted_by`: those that teach; spec/refutations.json names all
LONGEST_ID = 80  # characters: it stands in tests' names, in commands and in tables
LONGEST_QUOTE = 120  # characters: a quote shows where a sentence comes from, it does not replace the source
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
    "refuted_by": f"faults that must violate this clause: at most {MOST_FAULTS}, the most instructive",
    "glance": "at how many dtypes all its cases are tried: one, or every dtype where the verdict depends on the dtype",
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
    """`spec/problems.yaml`: named problems, each a domain word with its arguments. Raises SpecError."""
    fields = Fields(document, "the file of problems")
    fields.refuse_other_keys({"problems"})
    return named_problems(fields)


def named_problems(fields: Fields, *, optional: bool = False) -> dict[str, Word]:
    """The problems under `problems` by name. Raises SpecError."""
    problems = fields.inner("problems", optional=optional)
    return {name: _problem(name, problem) for name, problem in problems.read_named("the problem")}


def read_clause(fields: Fields, theme: str, context: Context) -> Clause:
    """The clause that the mapping spells; without a theme it belongs to what its id begins with.

    Raises SpecError with file, line and the nearest valid name.
    """
    fields.refuse_other_keys(CLAUSE_KEYS)
    identity = _id(fields)
    fields = replace(fields, description=f"the clause {identity!r}")
    given = _merge_given(fields.inner("given", "`given`"), context)
    return Clause(
        id=identity, theme=theme or identity.partition(".")[0], level=fields.choice("level", Level),
        profile=fields.one_of("profile", PROFILES), says=_read_says(fields),
        formula=fields.text("formula", ""), because=_because(fields, context),
        needs=given.always | frozenset(_keywords(fields, "needs")),
        problem=given.problem, given=given.word, draw=given.draw, runs=_runs(fields), then=_read_relations(fields),
        refuted_by=_refuted_by(fields), note=fields.text("note", ""),
        glance=fields.choice("glance", Glance, Glance.ONE_DTYPE), pool=fields.text("pool", "" if theme else OWN_POOL),
        where=fields.place(), places=fields.mapping.places)


def _refuted_by(fields: Fields) -> tuple[str, ...]:
    names = fields.texts("refuted_by", ())
    if len(names) > MOST_FAULTS:
        raise fields.complain("refuted_by", f"names {len(names)} faults. Name the {MOST_FAULTS} that teach most; "
                              "spec/refutations.json names all.")
    return names


def _problem(name: str, fields: Fields) -> Word:
    if not _NAME.fullmatch(name):
        message = f"{quoted(name)} is not a name for a problem: lower-case letters, digits and _ only."
        raise SpecError(message, where=fields.place())
    fields.text("kind")
    return Word(name, fields.mapping, fields.place())


def _id(fields: Fields) -> str:
    identity = fields.text("id")
    if not _ID.fullmatch(identity):
        raise fields.complain("id", "should look like causal.no_lookahead (lower case, a dot), not "
                              f"{quoted(identity)}.")
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
    citations = tuple(_citation(citation, context) for citation in fields.read_each("because", "a citation"))
    if not citations:
        raise fields.complain("because", "is empty; every clause cites where its sentence comes from.")
    return citations


def _citation(fields: Fields, context: Context) -> Citation:
    fields.refuse_other_keys(CITATION_KEYS)
    key = fields.one_of("cite", context.bibliography, kind="source of the bibliography")
    quote, translation, note = (fields.text(name, "") for name in ("quote", "translation", "note"))
    if len(quote) > LONGEST_QUOTE:
        raise fields.complain("quote", f"has {len(quote)} characters; {LONGEST_QUOTE} are enough to find the place.")
    if not (quote or note):
        raise SpecError(f"the citation of {key!r} needs a 'quote' or a 'note'.", where=fields.place())
    if translation and not quote:
        raise fields.complain("translation", "translates nothing: the citation has no 'quote'.")
    return Citation(cite=key, at=fields.text("at", ""), quote=quote, translation=translation, note=note,
                    where=fields.place())


def _merge_given(fields: Fields, context: Context) -> _GivenWords:
    """`given`, merged: the named problem's arguments, and over them the clause's own."""
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
    drawn = fields.inner("draw", "`draw`", optional=True)
    for key in drawn.mapping:
        drawn.text(_name(drawn, key))
    return drawn.mapping


def _keywords(fields: Fields, key: str) -> tuple[str, ...]:
    """The optional keywords of a subject that a field lists."""
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
    """A list of words: `{name: {argument: value, …}}`, or the bare name of a word that takes no arguments."""
    fields.absent(key)
    return tuple(_word(value, place) for _, value, place in fields.entries(key, "words"))


def _word(value: object, place: FileLocation) -> Word:
    if isinstance(value, str) and value:
        return Word(value, Located(place), place)
    if not isinstance(value, Located):
        raise SpecError(f"a word with its arguments is expected, not {describe(value)}.", where=place)
    if len(value) != 1:
        found = f"{len(value)} words: {', '.join(value)}" if value else "none"
        raise SpecError(f"one word with its arguments is expected; found {found}.", where=place)
    [(name, arguments)] = value.items()
    if not isinstance(arguments, Located | None):
        raise SpecError(f"the arguments of {name!r} should be a mapping, not {describe(arguments)}.", where=place)
    return Word(name, Located(place) if arguments is None else arguments, place)


def _name(fields: Fields, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SpecError(f"{quoted(name)} is not a name: lower-case letters, digits and _ "
                        "only.", where=fields.place(name))
    return name


def _less_keys(mapping: Located, *keys: str) -> Located:
    """The mapping less some keys, places kept."""
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
    """The file's sources by their keys. Raises SpecError."""
    fields = Fields(document, "the bibliography")
    fields.refuse_other_keys({"sources"})
    return read_sources(fields)


def read_sources(fields: Fields, *, optional: bool = False) -> dict[str, BibliographyEntry]:
    """The sources under `sources` by their keys. Raises SpecError with file and line for what is no source."""
    sources = fields.inner("sources", "the list of sources", optional=optional)
    return {key: _source(key, source) for key, source in sources.read_named("the source")}


def _source(key: str, fields: Fields) -> BibliographyEntry:
    fields.refuse_other_keys(_SOURCE_KEYS)
    if not _KEY.fullmatch(key):
        raise SpecError(f"{quoted(key)} is not a key for a source: lower-case letters, digits and _ only.",
                        where=fields.place())
    return BibliographyEntry(
        key=key, title=fields.text("title"), kind=fields.one_of("kind", KINDS, kind="kind of source"),
        url=fields.url("url", ""), author=fields.text("author", ""), year=_year(fields), note=fields.text("note", ""))


def _year(fields: Fields) -> str:
    if "year" not in fields.mapping:
        return ""
    year = fields.integer("year")
    if not 1000 <= year <= 9999:
        raise fields.complain("year", f"should have four digits, not {year}.")
    return str(year)
