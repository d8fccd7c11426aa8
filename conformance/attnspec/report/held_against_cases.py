"""What is told of where a failure begins, held against the cases of its run before anybody reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnspec.core.nouns import Verdict
from attnspec.record.contradictions import Lengths, keywords_in, lengths_in, needed_alone, parts_of
from attnspec.record.outcome import Evidence, Outcome

ABOUT_OTHER_MATTERS = frozenset({"numerics", "drift", "purity"})
"""Themes whose clauses may break at sizes at which the answers are right: they are about rounding and about memory."""

AT_OTHER_SIZES = frozenset({
    "attention.additive_in_values", "attention.one_key", "attention.queries_are_independent",
    "attention.batch_is_independent", "attention.heads_are_independent", "attention.duplicated_keys",
    "attention.a_value_for_every_key", "causal.one_query", "causal.prefix_is_truncation", "decoder.whole_is_steps",
    "decoder.whole_is_chunks", "decoder.window_over_chunks", "decoder.each_entry_its_own", "dropout.same_seed",
    "grouped.repeated_heads", "grouped.one_head_for_all", "invariance.batch_size", "invariance.one_query_at_a_time",
    "invariance.masked_keys", "invariance.padding", "invariance.chunks", "invariance.token_by_token",
    "layers.sum_of_heads", "layers.indivisible_heads", "lengths.each_entry_its_own", "lse.merges",
    "masking.padding_is_truncation", "packed.each_alone", "paged.each_entry_its_own", "paged.one_query",
    "past.whole_is_chunks", "past.chunks_behind_a_past", "past.token_by_token", "past.each_entry_its_own",
    "past.each_head_its_own", "past.nothing_is_none", "rotary.each_entry_its_own", "rotary.heads_are_alike",
    "rotary.token_by_token", "scale.inverse_root_width", "segments.each_alone",
    "segments.batch_entries_have_their_own", "sinks.is_one_more_key", "sinks.one_query_alone", "slopes.token_by_token",
    "slopes.each_head_its_own", "slopes.each_entry_its_own", "softcap.one_query", "window.one_query",
    "purity.no_memory"})
"""Clauses that make calls of other sizes than their case has: the case says little of the sizes at which one fails."""


def telling(failures: Sequence[Outcome]) -> list[Outcome]:
    """Those whose case has the sizes of every call that is made of it."""
    return [each for each in failures if each.clause not in AT_OTHER_SIZES]


def without_contradicted(failures: Sequence[Outcome]) -> list[Outcome]:
    """The failures, each with those conditions alone that its own case meets, and every case like it that failed."""
    return [_as_far_as_borne_out(failure, failures) for failure in failures]


def contradicted(says: str, failures: Sequence[Outcome]) -> bool:
    """Whether one of these cases fails at sizes at which a cause says that nothing fails."""
    parts, left = parts_of(says), parts_of(needed_alone(says, _lengths(failures)))
    return len(left) < len(parts)


def told_of_all(says: str, failures: Sequence[Outcome]) -> str:
    """Of a cause that names sizes, what all these cases bear out; "" if nothing is left."""
    return needed_alone(says, _lengths(failures)) if contradicted(says, failures) else says


def _lengths(failures: Sequence[Outcome]) -> list[Lengths]:
    return [lengths_in(each.evidence.recipe) for each in telling(failures) if each.evidence]


def _as_far_as_borne_out(failure: Outcome, failures: Sequence[Outcome]) -> Outcome:
    evidence = failure.evidence
    if evidence is None or not parts_of(evidence.begins):
        return failure
    cases = [lengths_in(each.recipe) for each in (evidence, *_that_count(failure, evidence, failures))]
    left = needed_alone(evidence.begins, cases)
    if len(parts_of(left)) == len(parts_of(evidence.begins)):
        return failure
    return replace(failure, evidence=replace(evidence, begins=left and f"{left[:1].upper()}{left[1:]}."))


def _that_count(failure: Outcome, evidence: Evidence, failures: Sequence[Outcome]) -> Iterator[Evidence]:
    """The other failures that nothing else explains and that are given no more than this one: the same bug breaks them
    or it is no matter of sizes alone.
    """
    given = keywords_in(evidence.recipe)
    for other in telling(failures):
        seen = other.evidence
        if (other is not failure and seen is not None and other.verdict is Verdict.VIOLATED
                and other.verdict is failure.verdict and other.dtype is failure.dtype
                and other.clause.partition(".")[0] not in ABOUT_OTHER_MATTERS
                and not (seen.like or seen.explained or seen.begins) and keywords_in(seen.recipe) <= given):
            yield seen
