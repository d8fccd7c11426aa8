"""What makes a clause claim less than it seems to: told by `lint`, for a verdict would hide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attnspec.core.errors import SpecError
from attnspec.spec.clause import Clause, Word
from attnspec.vocabulary.draws import DRAWS, MEANINGS
from attnspec.vocabulary.hints import meaning_of
from attnspec.vocabulary.signature import parameters_of
from attnspec.vocabulary.tables import WORDS

_WORDS = {**WORDS["transform"], **WORDS["relation"]}


def empty_claims(clause: Clause) -> Iterator[SpecError]:
    """What of a clause that compiles is of no use, or compares a thing with itself."""
    transforms = [word for words in clause.runs.values() for word in words]
    yield from _unused(clause, "run", clause.runs if "runs" in clause.places else (), clause.then)
    yield from _unused(clause, "drawn value", clause.draw, (*transforms, *clause.then))
    for word in clause.then:
        yield from _with_itself(word, clause)
    for word in (*transforms, *clause.then):
        yield from _of_another_kind(word, clause)


def _unused(clause: Clause, noun: str, names: Iterable[str], words: Iterable[Word]) -> Iterator[SpecError]:
    used = {text for word in words for text in _texts((*word.args.values(), *_defaults(word)))}
    key = "runs" if noun == "run" else "given"
    for name in names:
        if name not in used:
            yield SpecError(f"the {noun} {name!r} of {clause.id!r} is used by nothing: name it where it belongs, or "
                            "leave it out.", where=clause.place_of(key))


def _defaults(word: Word) -> Iterator[object]:
    """What a word uses where nothing is said: the run `original`."""
    return (each.default for name, each in parameters_of(_WORDS[word.name]).items() if name not in word.args)


def _texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | dict):
            yield from _texts(value.values() if isinstance(value, dict) else value)


def _with_itself(word: Word, clause: Clause) -> Iterator[SpecError]:
    runs = word.args.get("runs")
    if not isinstance(runs, list):
        return
    chains = [clause.runs.get(run) for run in runs]
    if len(set(runs)) == len(runs) == 2 and chains[0] == chains[1]:
        yield SpecError(f"the relation {word.name!r} compares {runs[0]!r} with {runs[1]!r}, which is the same run: let "
                        "one of them change the problem.", where=word.where)
    if len(set(runs)) < len(runs):
        yield SpecError(f"the relation {word.name!r} compares the run {runs[0]!r} with itself: name two runs.",
                        where=word.where)


def _of_another_kind(word: Word, clause: Clause) -> Iterator[SpecError]:
    for name, parameter in parameters_of(_WORDS[word.name]).items():
        wanted, drawn = meaning_of(parameter.hint), word.args.get(name)
        draw = clause.draw.get(drawn, "") if isinstance(drawn, str) else ""
        if wanted and draw and MEANINGS[draw] != wanted:
            fitting = " or ".join(each for each in DRAWS if MEANINGS[each] == wanted)
            yield SpecError(f"{name!r} of {word.name!r} wants {wanted.noun} ({fitting}); {drawn!r} is drawn by {draw}, "
                            f"which gives {MEANINGS[draw].noun}.", where=word.where)
