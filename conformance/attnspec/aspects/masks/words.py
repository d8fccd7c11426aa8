"""What a probe asks about masks, biases and the causal flag: which keys a query sees, what a row
gets that sees none, and whether hidden keys and values do harm.

Their words of the spec language are in `vocabulary`, and what conventions are asked about in
`questions/inputs.py`.
"""

from __future__ import annotations

import contextlib
from functools import partial

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.problems.problem import Array
from attnspec.questions.asker import (
    FAILURES,
    Asker,
    Failed,
    NotAsked,
    Question,
    Reply,
    declared_convention,
    even_weights,
    is_close,
    name_candidate,
    no_claim,
    promised_answer,
    show_numbers,
    softmax_rows,
)
from attnspec.questions.inputs import (
    HIDDEN_ROW,
    MASK_BESIDE_CAUSAL,
    UNMASKED_WEIGHTS,
    ask_alignment,
    ask_hidden_row,
    ask_mask_with_causal,
    ask_weights,
    ask_with_causal,
    hide_last_key,
)

_SQUARE_PATTERNS = {"past": np.tri(4, dtype=bool), "strict_past": np.tri(4, k=-1, dtype=bool),
                    "future": np.tri(4, dtype=bool).T, "everything": np.ones((4, 4), bool)}


def _ask_causal_square(asker: Asker) -> Reply:
    """The first row of a strict past sees nothing, so it is left out."""
    seen = asker.ask_output(asker.make_even(4, 4).but(causal=True))
    candidates = {name: even_weights(visible)[1:] for name, visible in _SQUARE_PATTERNS.items()}
    return name_candidate(seen[:, :, 1:, :4], candidates)


_ALIGNMENT_ANSWERS = {"top_left": "query i sees keys 0 … i",
                      "bottom_right": "query i sees keys 0 … i + S - T",
                      "everything": "the flag is ignored", **FAILURES}

QUESTIONS = (
    Question("causal.square", "Which keys does query i see under the causal flag, where T = S?", {
        "past": "keys 0 … i", "strict_past": "keys 0 … i - 1", "future": "keys i … S - 1",
        "everything": "all keys: the flag is ignored", **FAILURES}, _ask_causal_square,
        promised_answer("past")),
    Question("causal_alignment.longer_keys",
             "Along which diagonal does the causal mask lie if T < S?", _ALIGNMENT_ANSWERS,
             partial(ask_alignment, T=2, S=5), declared_convention("causal_alignment")),
    Question("causal_alignment.longer_queries",
             "Along which diagonal does the causal mask lie if T > S?", _ALIGNMENT_ANSWERS,
             partial(ask_alignment, T=5, S=2), declared_convention("causal_alignment")),
)


_BOOLEAN_BIAS = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]], bool)
_FLOAT_MASK = np.array([np.roll([0.0, -1.0, -64.0, -64.0], row) for row in range(4)])
_BIAS_PATTERN = np.array([np.roll([0.0, 2.0, 0.0, 0.0], row) for row in range(4)])


def _ask_float_mask(asker: Asker) -> Reply:
    if asker.subject.declaration.limits.bias_is_mask:
        raise NotAsked("its adapter turns every mask into a bias")
    problem, floats = asker.make_even(4, 4), asker.fit_rows(_FLOAT_MASK)
    seen = ask_weights(asker, problem.but(mask=asker.as_bias(floats, problem)))
    return name_candidate(seen, {"added": softmax_rows(floats), **_truth_candidates(floats != 0)})


def _ask_boolean_bias(asker: Asker) -> Reply:
    problem = asker.make_even(4, 4)
    seen = ask_weights(asker, problem.but(bias=asker.spread_over_heads(_BOOLEAN_BIAS, problem)))
    return name_candidate(seen, {"added": softmax_rows(_BOOLEAN_BIAS * 1.0), **_truth_candidates(_BOOLEAN_BIAS)})


def _ask_bias_form(asker: Asker) -> Reply:
    problem = asker.make_even(4, 4)
    seen = ask_weights(asker, problem.but(bias=asker.as_bias(_BIAS_PATTERN, problem)))
    scaled = _BIAS_PATTERN / np.sqrt(asker.subject.scale_width(problem))
    return name_candidate(seen, {
        "added": softmax_rows(_BIAS_PATTERN), "added_before_scaling": softmax_rows(scaled),
        "subtracted": softmax_rows(-_BIAS_PATTERN), **_truth_candidates(_BIAS_PATTERN != 0)})


def _truth_candidates(truth: Array) -> dict[str, Array]:
    """Candidates for the weights (T,S) where an array (T,S) is taken for its truth, one way round
    or the other, or is ignored.
    """
    return {"truth": even_weights(truth), "truth_dropped": even_weights(~truth), "ignored": UNMASKED_WEIGHTS}


def _ask_bias_with_causal(asker: Asker) -> Reply:
    problem = asker.make_even(4, 4)
    bias = asker.as_bias(np.where(MASK_BESIDE_CAUSAL, 0.0, -np.inf), problem)
    return ask_with_causal(asker, problem.but(bias=bias), MASK_BESIDE_CAUSAL)


_TRUTH_ANSWERS = {"truth": "keys whose entry is not zero are attended to",
                  "truth_dropped": "keys whose entry is not zero are masked",
                  "ignored": "nothing: it is ignored", **FAILURES}
_TOGETHER = CONVENTIONS["mask_with_causal"].answers
_TOGETHER_ANSWERS = {**{name: _TOGETHER[name] for name in ("both", "mask", "causal")},
                     "neither": "both are ignored", **FAILURES}

_MASK_QUESTIONS = (
    Question("bias.form", "What happens to a bias?", {
        "added": "it is added to the scaled logits",
        "added_before_scaling": "it is added before the logits are scaled",
        "subtracted": "it is subtracted from the scaled logits", **_TRUTH_ANSWERS}, _ask_bias_form,
        promised_answer("added")),
    Question("mask_with_causal", "What do a mask and the causal flag do together?",
             _TOGETHER_ANSWERS, ask_mask_with_causal, declared_convention("mask_with_causal")),
    Question("bias_with_causal", "What do a bias of 0 and -inf and the causal flag do together?",
             _TOGETHER_ANSWERS, _ask_bias_with_causal, declared_convention("mask_with_causal")),
)
RISKY_QUESTIONS = (
    Question("mask.float", "What does a float array mean that is passed as `mask`?",
             {"added": "it is added to the logits", **_TRUTH_ANSWERS}, _ask_float_mask),
    Question("bias.boolean", "What does a boolean array mean that is passed as `bias`?",
             {"added": "it is added to the logits, True as 1", **_TRUTH_ANSWERS},
             _ask_boolean_bias),
)
"""What the contract does not allow, and callers do. Asked late: native code may die of it."""


def _ask_row_without_keys(asker: Asker, form: str) -> Reply:
    """Keys do not weigh alike, so that what looks uniform is not what nobody has masked."""
    problem, others = asker.make_sloped(4, 4), {}
    with contextlib.suppress(NotAsked, Failed):
        others["unmasked"] = asker.ask_output(problem)[:, :, HIDDEN_ROW, :4]
    return ask_hidden_row(asker, form, problem, **others)


def _ask_row_under_causal(asker: Asker) -> Reply:
    """Asks for rows before the first key. Raises NotAsked if every query sees a key."""
    if ask_alignment(asker, 5, 2).answer != "bottom_right":
        raise NotAsked("every query sees a key")
    seen = asker.ask_output(asker.make_sloped(5, 2).but(causal=True))[:, :, :3, :2]
    return name_candidate(seen, {"zeros": np.zeros(2), "uniform": np.full(2, 0.5), "nan": np.full(2, np.nan)})


_POISONS = {"nan": np.nan, "inf": np.inf}


def _ask_poisoned(asker: Asker, place: str, content: str, form: str) -> Reply:
    """Compares all rows but the last, where a layer that attends to its input is poisoned, too."""
    hidden = hide_last_key(asker, asker.make_sloped(4, 4), form)
    right = asker.ask_output(hidden)[:, :, :3, :4]
    array = getattr(hidden, place).copy()
    array[:, :, -1, 0] = _POISONS[content]
    seen = asker.ask_output(hidden.but(**{place: array}))[:, :, :3, :4]
    return Reply(_name_damage(seen, right), show_numbers(seen))


def _name_damage(seen: Array, right: Array) -> str:
    """What poison did to an output of any shape, compared with the one without."""
    if is_close(seen, right):
        return "harmless"
    if np.isnan(seen).any():
        return "nan"
    return "infinite" if np.isinf(seen).any() else "changed"


_ROW_CONVENTION = CONVENTIONS["hidden_row"].answers
_CAUSAL_ROW_ANSWERS = {**{name: _ROW_CONVENTION[name] for name in ("zeros", "uniform", "nan")}, **FAILURES}
_ROW_ANSWERS = {**_CAUSAL_ROW_ANSWERS, "unmasked": "as if no key were masked"}
_ROW_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf",
              "finfo_min": "a bias of the most negative number"}
_KEY_FORMS = {"mask": "a boolean mask", "bias": "a bias of -inf", "causal": "the causal flag"}
_DAMAGE_ANSWERS = {"harmless": "nothing", "nan": "it becomes NaN",
                   "infinite": "it becomes infinite",
                   "changed": "it changes to other numbers", **FAILURES}

MASKED_QUESTIONS = (
    *_MASK_QUESTIONS,
    *(Question(f"hidden_row.{form}",
               f"What is the output of a query if {text} masks all its keys?", _ROW_ANSWERS,
               partial(_ask_row_without_keys, form=form),
               no_claim if form == "finfo_min" else declared_convention("hidden_row", form))
      for form, text in _ROW_FORMS.items()),
    Question("hidden_row.causal",
             "What is the output of a query that sees no key because of the causal flag?",
             _CAUSAL_ROW_ANSWERS, _ask_row_under_causal,
             declared_convention("hidden_row", "causal")),
    *(Question(f"hidden_{place}.{content}.{form}",
               f"What does {text} in a {place} do to the output of queries for which {how} masks it?",
               _DAMAGE_ANSWERS, partial(_ask_poisoned, place=place, content=content, form=form))
      for place in ("key", "value") for content, text in (("nan", "NaN"), ("inf", "infinity"))
      for form, how in _KEY_FORMS.items()),
)
