"""The tables of all words, the instrument of each relation, and the words of a clause that are
idle.

`spec/schema.json` is made of them: the grammar of the spec's files and every word with its
arguments, so that editors complete. It follows from the functions behind the words and the closed
lists of `core` alone: editing YAML never makes it stale, a new or changed word does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnspec.core.conventions import PROFILES
from attnspec.core.errors import SpecError
from attnspec.core.forms import EVERY_KEYWORD
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import Kind, Level
from attnspec.core.texts import docstring
from attnspec.problems.domain import domain
from attnspec.spec.clause import Clause, DtypeCoverage, Word
from attnspec.spec.load import CITATION_KEYS, CLAUSE_KEYS, ID, KINDS, LONGEST_QUOTE, MOST_FAULTS, NAME
from attnspec.vocabulary import chance, relations
from attnspec.vocabulary.scene import AnyProblem
from attnspec.vocabulary.signature import (
    COUNT,
    HEAD,
    ROW,
    SEED,
    STEP,
    Bound,
    Function,
    Meaning,
    json_schema_of,
    meaning_of,
    parameters_of,
)
from attnspec.vocabulary.transforms import axes, contents

# Words of `draw`: from what a value is drawn, simplest first. An empty range means that the case says nothing.


SEEDS = range(2**16)


def row_before_last(problem: AnyProblem) -> Sequence[int]:
    """Any query row but the last."""
    return range(problem.sizes.T - 1)


def any_query(problem: AnyProblem) -> Sequence[int]:
    """Any query row."""
    return range(problem.sizes.T)


def key_count(problem: AnyProblem) -> Sequence[int]:
    """How many keys to keep: from one to all."""
    return range(1, problem.sizes.S + 1)


def one_key(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """The number 1: a single key or head is kept."""
    return (1,)


def one_query(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """Position 0: a single query is left if everything after it is cut off."""
    return (0,)


def any_head(problem: AnyProblem) -> Sequence[int]:
    """Any query head."""
    return range(problem.sizes.H)


def shuffle(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """A seed for a permutation or for other content."""
    return SEEDS


def small_step(problem: AnyProblem) -> Sequence[int]:  # noqa: ARG001  (every draw is asked with the problem)
    """A small whole number that is not zero."""
    return (1, -1, 2, -2, 3, -3, 4, -4)


MEANINGS: Mapping[str, Meaning] = {
    "row_before_last": ROW, "any_query": ROW, "one_query": ROW, "key_count": COUNT, "one_key": COUNT,
    "any_head": HEAD, "shuffle": SEED, "small_step": STEP,
}
"""What the numbers of each word stand for."""

DRAWS: Mapping[str, Callable[[AnyProblem], Sequence[int]]] = {
    word.__name__: word for word in (row_before_last, any_query, key_count, one_key, one_query, any_head, shuffle,
                                      small_step)
}


# Instruments of relations


WORST_CASE = "worst-case rounding bound"
EQUALITY = "equality"
_ROUNDINGS = "bound for independent rounding errors, at most {false_alarm:g} false alarms per clause"

_BINOMIAL = "exact binomial test, at most {false_alarm:g} false alarms per clause"

_CONVENTION = "probe of a convention"

INSTRUMENTS: Mapping[str, str] = {
    **dict.fromkeys((
        "agrees_with_definition", "agree_on_prefix", "adds_up", "is_multiple", "sums_to_one",
        "inside_hull", "row_maxima_grow", "variants_agree", "form_agrees", "differ", "merges", "lse_merges",
        "full_cache_agrees_with_definition", "keeps_pair_norms", "scores_agree", "composes"), WORST_CASE),
    **dict.fromkeys((
        "has_shape", "has_input_dtype", "is_finite", "not_negative", "hidden_is_zero", "leaves_inputs",
        "shares_no_memory", "answers_are_kept", "lse_has_its_dtype", "gradients_have_input_dtypes",
        "leaves_input_as_it_is", "leaves_the_rest", "masks_agree"), EQUALITY),
    **dict.fromkeys((
        "convention_is", "hidden_rows_follow_convention", "rows_beyond_follow_convention",
        "lse_of_hidden_rows_follows_convention", "overfull_cache_follows_convention"), _CONVENTION),
    **dict.fromkeys(("drops_at_rate", "drops_independently", "masks_are_independent"), _BINOMIAL),
    **dict.fromkeys(("agrees_typically", "is_as_precise_as_declared"), _ROUNDINGS),
    "agree": "{within}",
    "is_refused": "refusal of the call",
    "does_not_overflow": f"{WORST_CASE}, no overflow excused",
    "has_variance": "chi-squared test, at most {false_alarm:g} false alarms per shape",
    "has_no_drift": "self-normalised score test, at most {false_alarm:g} false alarms per clause",
    "weights_are_dropped_or_rescaled": f"{WORST_CASE} on the weights, measured with V = I",
    "agrees_with_what_is_kept": f"{WORST_CASE}, with the weights dropped that are 0 for V = I",
    "averages_to_plain": "Hoeffding's inequality, at most {false_alarm:g} false alarms per clause",
    **{name: f"{WORST_CASE}{beside}" for part in load_parts("words")
       for name, beside in getattr(part, "INSTRUMENTS", {}).items()},
}
"""By relation; in braces its arguments. A new relation joins this table and the words."""

_WITHIN: Mapping[object, str] = {"exact": EQUALITY, "rounding": WORST_CASE}
_READ_OUTS: Mapping[object, str] = {
    "weights": " on the weights, measured with V = I", "logits": " on the logits, measured with V = I"}


def instrument_of(bound: Bound) -> str:
    """The instrument of a relation, with its arguments in place."""
    values = bound.values
    phrase = INSTRUMENTS[bound.name].format_map({**values, "within": _WITHIN.get(values.get("within"), "")})
    return phrase + _READ_OUTS.get(values.get("observe"), "")


Words = Mapping[str, Callable[..., Any]]


def _words(*functions: Callable[..., Any]) -> Words:
    return {function.__name__: function for function in functions}


def _of_aspects(table: str) -> tuple[Callable[..., Any], ...]:
    """The words that aspects have in a table of this name."""
    return tuple(word for part in load_parts("words") for word in getattr(part, table, ()))


TRANSFORMS: Words = _words(
    axes.permute_keys, axes.permute_queries, axes.permute_batch, axes.permute_heads, axes.split,
    contents.multiply, contents.shift_keys, contents.shift_bias, contents.fill, contents.keep_values,
    contents.other_content, contents.replace_hidden, contents.replace_last_entry, contents.replace_after,
    contents.share_heads, contents.move_unseen, contents.hide_keys, contents.show_all, contents.drop_mask,
    contents.share_mask, contents.broadcast_mask, contents.zero_bias, contents.mask_as_bias,
    contents.causal_as_mask, contents.ask_weights, contents.leave_out,
    *_of_aspects("TRANSFORMS"),
    axes.widen, axes.repeat_keys, axes.drop_keys, axes.drop_last_value, axes.drop_first_keys, axes.keep_queries,
    axes.keep_prefix, axes.repeat_kv_heads, axes.keep_kv_heads,
    contents.again, contents.after_another, contents.lay_out,
)

LAYER_TRANSFORMS: Words = _words(
    axes.indivisible_heads, axes.multiply_biases, axes.one_head_at_a_time, axes.permute_layer_heads)

ROTARY_TRANSFORMS: Words = _words(*_of_aspects("ROTARY_TRANSFORMS"))

TABLES: Mapping[Kind, Words] = {
    Kind.ATTENTION: TRANSFORMS, Kind.LAYER: LAYER_TRANSFORMS, Kind.ROTARY: ROTARY_TRANSFORMS}
"""The transforms of each kind of problem."""

ASPECT_RELATIONS = _of_aspects("RELATIONS")
"""Those of the aspects; they look at attention itself."""

ROTARY_RELATIONS = _of_aspects("ROTARY_RELATIONS")

RELATIONS: Words = _words(
    relations.agrees_with_definition, relations.agree, relations.agree_on_prefix, relations.differ, relations.adds_up,
    relations.is_multiple, relations.has_shape, relations.has_input_dtype, relations.is_finite,
    relations.not_negative, relations.sums_to_one, relations.hidden_is_zero, relations.inside_hull,
    relations.row_maxima_grow, relations.leaves_inputs, relations.shares_no_memory, relations.variants_agree,
    relations.answers_are_kept, relations.does_not_overflow, relations.convention_is,
    relations.hidden_rows_follow_convention, relations.rows_beyond_follow_convention,
    relations.lse_of_hidden_rows_follows_convention, relations.is_refused,
    relations.merges, relations.lse_merges, relations.lse_has_its_dtype, relations.form_agrees,
    chance.has_variance, chance.agrees_typically, chance.is_as_precise_as_declared, chance.has_no_drift,
    *ROTARY_RELATIONS, *ASPECT_RELATIONS,
)

OF_ROTARY = frozenset(word.__name__ for word in ROTARY_RELATIONS)
"""Relations that only rotary embeddings have."""

OF_ANY = frozenset({
    "agrees_with_definition", "agree", "has_shape", "has_input_dtype", "is_finite", "leaves_inputs",
    "shares_no_memory", "answers_are_kept"})
"""Relations that look at inputs and output alone: all that a rotary embedding has besides."""

ATTENTION_RELATIONS = frozenset({
    "inside_hull", "row_maxima_grow", "hidden_rows_follow_convention", "rows_beyond_follow_convention",
    "lse_of_hidden_rows_follows_convention", "merges", "lse_merges", "lse_has_its_dtype", "has_variance",
    "agrees_typically", "is_as_precise_as_declared", "has_no_drift",
    *(word.__name__ for word in ASPECT_RELATIONS)})
"""Relations that only problems of attention itself have."""

OF_CHANCE = frozenset({
    "has_variance", "agrees_typically", "is_as_precise_as_declared", "has_no_drift",
    "drops_at_rate", "drops_independently", "masks_are_independent", "averages_to_plain"})
"""Relations with a rate of false alarms. To search for a case that breaks them would void it."""

OF_ROUNDINGS = frozenset({"agrees_typically", "is_as_precise_as_declared"})
"""Relations that take roundings to be independent, which only values without structure allow."""

INSIDE = frozenset({"weights", "logits"})
"""Observables read through the values: a layer's projections are in the way."""

READING = frozenset({
    "weights_are_dropped_or_rescaled", "agrees_with_what_is_kept", "masks_agree",
    "drops_at_rate", "drops_independently", "masks_are_independent"})
"""Relations that read the weights, whatever they observe."""

PARTING = frozenset({"split", "one_head_at_a_time", "cut_to_lengths", "one_at_a_time"})
"""Transforms that take a problem apart: they are the last of a run."""

PARTED: Mapping[object, str] = {"batch": "B", "heads": "H", "queries": "T", "tokens": "T"}
"""By what `along` says, the axis along which it is taken apart."""

WORDS: Mapping[str, Words] = {
    "problem": {"problem": domain}, "draw": DRAWS, "transform": {**TRANSFORMS, **LAYER_TRANSFORMS, **ROTARY_TRANSFORMS},
    "relation": RELATIONS,
}


# What makes a clause claim less than it seems to: told by `lint`, for a verdict would hide it


_WORDS = {**WORDS["transform"], **WORDS["relation"]}


def empty_claims(clause: Clause) -> Iterator[SpecError]:
    """Errors of a clause that compiles: it names what is idle, or compares a run with itself."""
    transforms = [word for words in clause.runs.values() for word in words]
    yield from _unused_names(clause, "run", clause.runs if "runs" in clause.places else (), clause.then)
    yield from _unused_names(clause, "drawn value", clause.draw, (*transforms, *clause.then))
    for word in clause.then:
        yield from _with_itself(word, clause)
    for word in (*transforms, *clause.then):
        yield from _of_another_kind(word, clause)


def _unused_names(clause: Clause, noun: str, names: Iterable[str], words: Iterable[Word]) -> Iterator[SpecError]:
    used = {text for word in words for text in _texts((*word.args.values(), *_defaults(word)))}
    key = "runs" if noun == "run" else "given"
    for name in names:
        if name not in used:
            yield SpecError(f"the {noun} {name!r} of {clause.id!r} is used by nothing: name it where it belongs, or "
                            "leave it out.", where=clause.place_of(key))


def _defaults(word: Word) -> Iterator[object]:
    """The arguments that a word has by default, such as the run `original`."""
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
    chains = [*map(clause.runs.get, runs)]
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


Schema = dict[str, object]
Tables = Mapping[str, Mapping[str, Function]]  # problem, draw, transform and relation: the words of each by name

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": "string", "minLength": 1}
_NAME: Schema = {"type": "string", "pattern": f"^{NAME}$"}


def schema(tables: Tables, faults: Iterable[str] = ()) -> Schema:
    """The JSON Schema (draft 2020-12) of every YAML file in `spec/`, and of files of own clauses.

    faults: the names that may refute clauses.
    """
    problems, sources = _map_of_names(_ref("problem")), _map_of_names(_ref("source"))
    return {
        "$schema": _DIALECT,
        "title": "attnspec: the files of spec/, and files of own clauses (--spec-add)",
        "description": "Generated by `attnspec schema --write`; see docs/writing-a-clause.md.",
        "type": "object",
        **_by_key({"theme": "theme", "clauses": "added", "problems": "problems", "sources": "bibliography"}, "version"),
        "$defs": {
            "theme": _object({"theme": _NAME, "clauses": _list(_refutable())}),
            "added": _object({"clauses": _list(_ref("clause")), "sources": sources, "problems": problems},
                             required=["clauses"]),
            "problems": _object({"problems": problems}),
            "bibliography": _object({"sources": sources}),
            "version": _object({"version": _TEXT}),
            "clause": _clause(list(faults)),
            "citation": _citation(),
            "problem": _problem(tables),
            "given": _given_schema(tables),
            "source": _source(),
            "keyword": _choice({word.name: f"{word.shape}: {word.meaning}" for word in EVERY_KEYWORD.values()}),
            "transform": _word_grammars(tables["transform"]),
            "relation": _word_grammars(tables["relation"]),
        }}


def schema_text(tables: Tables, faults: Iterable[str] = ()) -> str:
    """The schema as its file holds it."""
    return json.dumps(schema(tables, faults), indent=1, ensure_ascii=False) + "\n"


def _clause(faults: list[str]) -> Schema:
    fault: Schema = {"enum": sorted(faults)} if faults else _NAME
    fields: dict[str, Schema] = {
        "id": {"type": "string", "pattern": f"^{ID}$"},
        "level": {"enum": [level.value for level in Level]},
        "profile": _choice(PROFILES),
        "says": {"type": "string", "pattern": r"\.\s*$"},
        "formula": _TEXT,
        "because": _list(_ref("citation")),
        "needs": {"type": "array", "items": _ref("keyword"), "uniqueItems": True},
        "given": _ref("given"),
        "runs": _map_of_names({"type": "array", "items": _ref("transform")}),
        "then": _list(_ref("relation")),
        "refuted_by": {"type": "array", "items": fault, "uniqueItems": True, "maxItems": MOST_FAULTS},
        "glance": {"enum": [coverage.value for coverage in DtypeCoverage]},
        "pool": _TEXT,
        "note": _TEXT,
    }
    optional = {"formula", "needs", "runs", "refuted_by", "glance", "pool", "note"}
    return _explain_properties(fields, CLAUSE_KEYS, required=[name for name in fields if name not in optional])


def _refutable() -> Schema:
    """The schema of a clause of the spec: one that says must names a fault that violates it."""
    must: Schema = {"properties": {"level": {"const": Level.MUST.value}}}
    named: Schema = {"required": ["refuted_by"], "properties": {"refuted_by": {"minItems": 1}}}
    return {"allOf": [_ref("clause"), {"if": must, "then": named}]}


def _citation() -> Schema:
    quote: Schema = _TEXT | {"maxLength": LONGEST_QUOTE}
    fields: dict[str, Schema] = {"cite": _NAME, "at": _TEXT, "quote": quote, "translation": _TEXT, "note": _TEXT}
    return _explain_properties(fields, CITATION_KEYS, required=["cite"]) | {
        "anyOf": [{"required": ["quote"]}, {"required": ["note"]}], "dependentRequired": {"translation": ["quote"]}}


def _problem(tables: Tables) -> Schema:
    """The schema of a named problem: the arguments of the domain word, flat."""
    [word] = tables["problem"].values()
    return json_schema_of(word) | {"type": "object"}


def _given_schema(tables: Tables) -> Schema:
    """The schema of `given`: the named problem, arguments that differ from it, drawn values."""
    arguments = json_schema_of(*tables["problem"].values())["properties"]
    assert isinstance(arguments, dict)
    draws = _choice({name: docstring(word) for name, word in tables["draw"].items()})
    own: Schema = {
        "problem": _NAME | {"description": "a name of spec/problems.yaml"},
        "draw": _map_of_names(draws) | {
            "description": "a name of the clause's own for each value, and from what it is drawn"}}
    return _object(own | arguments, required=["problem"])


def _source() -> Schema:
    fields: Schema = {"title": _TEXT, "kind": _choice(KINDS), "author": _TEXT, "year": {"type": "integer"},
                      "url": {"type": "string", "pattern": "^https?://"}, "note": _TEXT}
    return _object(fields, required=["title", "kind"])


def _word_grammars(table: Mapping[str, Function]) -> Schema:
    """The schema of one word with its arguments, or the bare name of a word that needs none."""
    one: Schema = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False,
                   "properties": {name: json_schema_of(word) for name, word in table.items()}}
    bare = {name: docstring(word) for name, word in table.items()
            if not any(parameter.required for parameter in parameters_of(word).values())}
    return {"anyOf": [one, _choice(bare)]} if bare else one


def _by_key(kinds: Mapping[str, str], otherwise: str) -> Schema:
    """The schema of a file, by the key that only such a file has."""
    chosen: Schema = _ref(otherwise)
    for key, kind in reversed(list(kinds.items())):
        chosen = {"if": {"required": [key]}, "then": _ref(kind), "else": chosen}
    return chosen


def _object(properties: Mapping[str, object], required: list[str] | None = None) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties),
            "required": list(properties) if required is None else required}


def _explain_properties(
        properties: Mapping[str, Schema], meanings: Mapping[str, str], *, required: list[str]) -> Schema:
    return _object({name: fields | {"description": meanings[name]} for name, fields in properties.items()}, required)


def _choice(meanings: Mapping[str, str]) -> Schema:
    """The schema of a closed list, each member with its meaning."""
    return {"oneOf": [{"const": name, "description": meaning} for name, meaning in meanings.items()]}


def _map_of_names(value: Schema) -> Schema:
    return {"type": "object", "propertyNames": {"pattern": f"^{NAME}$"}, "additionalProperties": value}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
