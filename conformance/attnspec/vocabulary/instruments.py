"""What a verdict rests on: each relation word names its instrument, and its rate of error where chance is involved."""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.vocabulary.signature import Bound

WORST_CASE = "worst-case rounding bound"
EQUALITY = "equality"
_ROUNDINGS = "bound of independent roundings, at most {false_alarm:g} false alarms a clause"

INSTRUMENTS: Mapping[str, str] = {
    "agrees_with_definition": WORST_CASE, "agree": "{within}", "agree_on_prefix": WORST_CASE, "adds_up": WORST_CASE,
    "is_multiple": WORST_CASE, "sums_to_one": WORST_CASE, "inside_hull": WORST_CASE, "row_maxima_grow": WORST_CASE,
    "variants_agree": WORST_CASE, "differ": WORST_CASE, "has_shape": EQUALITY, "has_input_dtype": EQUALITY,
    "is_finite": EQUALITY,
    "not_negative": EQUALITY, "hidden_is_zero": EQUALITY, "leaves_inputs": EQUALITY, "shares_no_memory": EQUALITY,
    "answers_are_kept": EQUALITY, "convention_is": "probe of a convention",
    "hidden_rows_follow_convention": "probe of a convention", "is_refused": "refusal of the call",
    "has_variance": "chi-squared law, at most {false_alarm:g} false alarms a shape",
    "has_no_drift": "self-normalised score test, at most {false_alarm:g} false alarms a clause",
    "agrees_typically": _ROUNDINGS, "is_as_precise_as_declared": _ROUNDINGS,
}
"""By relation; in braces its arguments. A new relation joins this table when it joins the words."""

_WITHIN: Mapping[object, str] = {"exact": EQUALITY, "rounding": WORST_CASE}
_READ_OUTS: Mapping[object, str] = {
    "weights": " on weights read out through V = I", "logits": " on logits read out through V = I"}


def instrument_of(bound: Bound) -> str:
    """The instrument of a relation with its arguments in place."""
    values = bound.values
    phrase = INSTRUMENTS[bound.name].format_map({**values, "within": _WITHIN.get(values.get("within"), "")})
    return phrase + _READ_OUTS.get(values.get("observe"), "")
