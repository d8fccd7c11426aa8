"""Lists conventions, questions on which practice is divided, each with its answers; and the
profiles.

A profile is what a subject may claim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from attnspec.core.forms import POSITIONS, ROTARY_PROFILE, VARIANTS_PROFILE
from attnspec.core.keywords import HIDING, KEYWORDS, UNCOMMON, load_parts
from attnspec.core.nouns import is_bare

UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Convention:
    """A question, its possible answers, the answer a `should` clause recommends, and each one's
    meaning.

    keyword: without which nobody asks.  does: what a function does that gives an answer other than
    recommended, as a clause.
    """

    name: str
    question: str
    answers: Mapping[str, str]
    recommended: str
    keyword: str = ""
    does: Mapping[str, str] = field(default_factory=dict)


def unfound_message(name: str, subject: str) -> str:
    """What to say where a probe found none of a convention's answers and none is declared."""
    convention = CONVENTIONS[name]
    entry = f"conventions: {{{name}: {convention.recommended}}} in its manifest"
    if is_bare(subject):
        function = subject.rpartition(":")[2]
        entry = f'{function}.conventions = {{"{name}": "{convention.recommended}"}}'
    others = ", ".join(answer for answer in convention.answers
                       if answer not in {convention.recommended, UNDEFINED})
    return (f"{name} could not be found out: a probe saw none of the known answers. Declare {entry} "
            f"(or {others}); then the subject is judged by what it declares")


def describe_answer(name: str, answer: str) -> str:
    """What a function with this answer does: `a row that sees no key gets NaN ('nan')`."""
    words = CONVENTIONS[name.partition(".")[0]].does.get(answer)
    return f"{words} ({answer!r})" if words else f"{name} is {answer!r}"


def of_hidden_rows(conventions: Mapping[str, str], keywords: Collection[str]) -> str:
    """What a row without keys should be, whichever of these keywords has hidden them.

    Undefined where several are in use and the answers differ by keyword (`hidden_row.mask`).
    """
    usual = conventions.get("hidden_row", UNDEFINED)
    forms = [name for name in HIDING if name in keywords] or [""]
    answer, *others = {conventions.get(f"hidden_row.{form}", usual) for form in forms}
    return UNDEFINED if others else answer


def unlike_any(name: str) -> str:
    """What `undefined` means where a probe found it: `what it does is neither zeros (a row of
    zeros) nor nan (…)`.
    """
    answers = [f"{answer} ({meaning})"
               for answer, meaning in CONVENTIONS[name].answers.items() if answer != UNDEFINED]
    return f"{name} is undefined: what it does is neither {' nor '.join(answers)}"


CONVENTIONS: Mapping[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention("hidden_row", "What is the output of a query that may attend to no key?", {
            "zeros": "a row of zeros",
            "uniform": "the mean of all values, those of masked keys included",
            "nan": "not a number",
            UNDEFINED: "no promise is made"}, "zeros", does={
                "uniform": "a row that sees no key gets the mean of all values",
                "nan": "a row that sees no key gets NaN",
                UNDEFINED: "what a row gets that sees no key is not promised"}),
        Convention("causal_alignment",
                   "If T differs from S, along which diagonal do the causal mask and a window "
                   "lie?", {
            "top_left": "query i is at position i and sees keys 0 … i",
            "bottom_right": "query i is at position i + S - T and sees keys 0 … i + S - T",
            UNDEFINED: "no promise is made"}, "top_left", does={
                "bottom_right": "with the causal flag, the last query sees the last key, "
                                "whatever T and S are",
                UNDEFINED: "what the causal flag does where T differs from S is not promised"}),
        Convention("mask_with_causal", "What do a mask and the causal flag do together?", {
            "both": "a key is seen if both allow it",
            "mask": "the flag is ignored",
            "causal": "the mask is ignored",
            "raises": "the call is refused",
            UNDEFINED: "no promise is made"}, "both", does={
                "mask": "beside a mask, the causal flag is ignored",
                "causal": "beside the causal flag, a mask is ignored",
                "raises": "a mask and the causal flag are refused together",
                UNDEFINED: "what a mask and the causal flag do together is not promised"}),
        Convention("grouped_heads", "Which key/value head does query head h use when Hkv < H?", {
            "repeat": "head h // (H / Hkv)",
            "tile": "head h % Hkv",
            UNDEFINED: "no promise is made"}, "repeat", does={
                "tile": "query head h uses key/value head h % Hkv, not h // (H / Hkv)",
                UNDEFINED: "which key/value head a query head uses is not promised"}),
        Convention("beyond_length", "What does a row hold that lies beyond the number of queries "
                                    "of its batch entry?", {
            "zeros": "zeros",
            "unspecified": "anything: it is not to be read",
            UNDEFINED: "no promise is made"}, "zeros", "query_lengths", {
                "unspecified": "a row beyond the number of queries may hold anything",
                UNDEFINED: "what a row beyond the number of queries holds is not promised"}),
        Convention("lse_base", "To which base is a log-sum-exp taken?", {
            "natural": "the logarithm of the sum is the natural one",
            "two": "it is the logarithm to base two of the same sum",
            UNDEFINED: "no promise is made"}, "natural", "return_lse", {
                "two": "log-sum-exps are logarithms to base two",
                UNDEFINED: "the base of log-sum-exps is not promised"}),
        Convention("lse_of_hidden_row", "What is the log-sum-exp of a row that sees no key?", {
            "minus_infinity": "-inf, the logarithm of an empty sum",
            "plus_infinity": "+inf",
            "zero": "0",
            "unspecified": "anything: it is not to be read",
            UNDEFINED: "no promise is made"}, "minus_infinity", "return_lse", {
                "plus_infinity": "the log-sum-exp of a row that sees no key is +inf",
                "zero": "the log-sum-exp of a row that sees no key is 0",
                "unspecified": "the log-sum-exp of a row that sees no key may be anything",
                UNDEFINED: "the log-sum-exp of a row that sees no key is not promised"}),
        Convention("overfull_cache",
                   "What does a decoder do whose cache has no room for a further key?", {
            "refuses": "it raises an exception that says so",
            "forgets_oldest": "the oldest key makes room",
            "unspecified": "anything: nobody is to call it then",
            "grows": "there is always room",
            UNDEFINED: "no promise is made"}, "refuses", "cache", {
                "forgets_oldest": "a full cache forgets its oldest key",
                "unspecified": "a full cache may do anything with a further key",
                "grows": "a cache is never full",
                UNDEFINED: "what a full cache does with a further key is not promised"}),
        Convention("used_cache", "May a cache be continued a second time?", {
            "kept": "yes: a call leaves the cache as it was",
            "changed": "no: a call changes the cache that it is handed",
            UNDEFINED: "no promise is made"}, "kept", "cache", {
                "changed": "a call changes the cache that it is handed, which cannot be continued twice",
                UNDEFINED: "whether a cache can be continued twice is not promised"}),
        Convention("rotary_pairs", "Which features are a pair that a rotary embedding turns?", {
            "halves": "features i and i + r/2 of the r that are turned",
            "interleaved": "features 2i and 2i+1",
            UNDEFINED: "no promise is made"}, "halves", POSITIONS, {
                "interleaved": "features 2i and 2i+1 are turned together, not i and i + r/2",
                UNDEFINED: "which features are turned together is not promised"}),
    )
}

PROFILES: Mapping[str, str] = {
    "core": "attention without optional arguments, as its definition says, deterministic and at "
            "every size",
    **{KEYWORDS[name].profile: KEYWORDS[name].promise
       for name in ("scale", "return_weights", "mask", "bias", "causal", *UNCOMMON)},
    "grouped": "fewer key/value heads than query heads (grouped-query and multi-query attention)",
    "layers": "whole layers with their projections and head split",
    ROTARY_PROFILE: "a rotary embedding: pairs of features are turned by angles that grow with the position",
    "purity": "same call, same answer: inputs untouched, no hidden state, no dependence on memory "
              "layout",
    "batch_invariant": "the bits of a row do not depend on the batch, on chunks, or on padding",
    VARIANTS_PROFILE: "compiled, exported, mapped over the batch or recomputed, the function "
                      "gives what it gives plain",
    **{name: promise for part in load_parts("keyword")
       for name, promise in getattr(part, "PROFILES", {}).items()},
}

IF_CLAIMED = frozenset({"batch_invariant", *(name for part in load_parts("keyword")
                                             for name in getattr(part, "IF_CLAIMED", ()))})
"""Profiles that bind only who claims them: most good implementations do not keep them."""
