"""Learns which keywords a callee understands, one by one; an answer proves each step.

How a keyword may be passed is data (`Keyword.sayings`). Weights and log-sum-exps, which come back
beside the output, are learned last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from attnspec.core.forms import EXPRESSED, HELD_IN_PAGES, KEY_COUNTS, TABLE
from attnspec.core.keyword import Acts, Keyword, Saying
from attnspec.core.keywords import AXES, CACHED, KEYWORDS, OFF, SEGMENTED
from attnspec.core.nouns import Kind
from attnspec.problems.keyword_arrays import sample_array, split_past
from attnspec.problems.problem import Problem
from attnspec.scaffold.decoders import EQUAL_PAST, learn_cache
from attnspec.scaffold.form import Binding, CallableKind, CallForm, Parameters, Site, bind_keyword
from attnspec.scaffold.function_forms import limit_to_named_pages
from attnspec.scaffold.lookup import SYNONYMS, find_parameters, normalise_name
from attnspec.scaffold.masks import (
    HIDES_BOTH,
    HIDES_QUERIES,
    KEY_MASK_LIMITS,
    find_first_right,
    find_nearest_mask,
    hides_keys_and_queries,
    learn_bias,
    learn_full_mask,
    learn_mask_as_bias,
    learn_partial_mask,
    learn_square_mask,
    read_as_key_mask,
)
from attnspec.scaffold.probe_problems import AnyProblem, expect_usual, plain_problem, square_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Attempt, LimitValues, Progress, Trier
from attnspec.scaffold.writing.telling import say_handed_on

LSE_KEYWORD = "return_lse"


def may_learn_keyword(form: CallForm, keyword: str) -> bool:
    """Says whether the form can take a keyword that it does not have yet."""
    if form.is_packed:
        return not keyword or (keyword in EXPRESSED and keyword != LSE_KEYWORD)
    if not form.parameter_for(TABLE) or not keyword:
        return True
    return keyword in HELD_IN_PAGES and keyword != KEY_COUNTS


def learn_keywords(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds every keyword that has a parameter to the form. A keyword that gives wrong numbers is
    added at its nearest reading, so that a check tells what is wrong. One that cannot be used is
    named in a warning, and no check without it passes.
    """
    nearest: dict[str, Attempt | None] = {}
    for keyword, learn in LEARNING_STEPS:
        if not may_learn_keyword(form, keyword):
            continue
        trier.nearest = nearest.get(keyword)
        form = learn(form, parameters, trier)
        nearest[keyword] = trier.nearest
    form = limit_to_named_pages(learn_cache(form, tuple(parameters[Site.CALL]), trier), trier)
    for keyword, attempt in nearest.items():
        if keyword == "mask" and attempt and attempt.progress is Progress.RAISED:
            form = learn_square_mask(form, parameters, trier)
        names = _list_unused_parameters(form, keyword, parameters) if keyword else []
        if attempt and attempt.form.bindings and names:
            form = (_hand_on_nearest(form, keyword, parameters, attempt, trier)
                    or _leave_out_keyword(form, keyword, names[0], attempt))
    return form


def _list_unused_parameters(form: CallForm, keyword: str, parameters: Parameters) -> list[str]:
    """Lists the unused parameters whose name stands for a keyword that the form does not have."""
    if form.understands(keyword):
        return []
    taken = {each.parameter for each in form.bindings}
    names = [each.name for each in find_parameters(keyword, parameters[Site.CALL])]
    others = _NAMES_OF_OTHERS.get(keyword, ())
    return [name for name in names if name not in taken and normalise_name(name) not in others]


def _leave_out_keyword(form: CallForm, keyword: str, parameter: str, attempt: Attempt) -> CallForm:
    """Leaves a keyword out with a warning; demands it unless the callee refuses it in words."""
    tried = next(each for each in reversed(attempt.form.bindings) if each.parameter)
    says = f" ({tried.says})" if tried.says else ""
    why = (f"It could not be used as `{keyword}`, so that keyword is left out. Nearest is "
           f"{tried.parameter}={tried.expression}{says}; but {attempt.objection}.")
    is_demanded = keyword in OFF and not attempt.is_refusal
    return form.leave_out(parameter, why, [keyword] if is_demanded else [])


def _hand_on_nearest(form: CallForm, keyword: str, parameters: Parameters, attempt: Attempt,
                     trier: Trier) -> CallForm | None:
    """Adds a keyword at its nearest reading; None if nothing answered, and for a flag."""
    if keyword == "mask":
        name = _list_unused_parameters(form, keyword, parameters)[0]
        if on_queries := read_as_key_mask(form, name, trier):
            return hand_on(form, (on_queries,), KEY_MASK_LIMITS, HIDES_QUERIES)
        if hides_keys_and_queries(form, name, trier):
            return form.leave_out(name, HIDES_BOTH, [])
        attempt = find_nearest_mask(form, parameters, trier) or attempt
    taken = {each.parameter for each in form.bindings}
    more = tuple(each for each in attempt.form.bindings if each not in form.bindings)
    is_flag = (keyword not in KEYWORDS or keyword == "causal"
               or KEYWORDS[keyword].acts is Acts.ANSWER)
    is_taken = bool(taken & {each.parameter for each in more})
    if is_flag or attempt.progress is not Progress.OTHER_NUMBERS or not more or is_taken:
        return None
    problem, mistake = plain_problem(attempt.form), ""
    if keyword == CACHED[0] and isinstance(problem, Problem):
        mistake = trier.explain(attempt.form, split_past(problem, problem.sizes.S // 2))
    return hand_on(form, more, attempt.form.limits, mistake or attempt.objection)


def hand_on(form: CallForm, more: Sequence[Binding], limits: LimitValues,
            against: str) -> CallForm:
    """Adds bindings and their limits to the form, with a remark on what speaks against them."""
    first = more[0]
    said = say_handed_on(first.parameter, first.keyword, against, first.says)
    return replace(form, bindings=(*form.bindings, *more), limits={**limits, **form.limits},
                   remarks=(*form.remarks, said))


def _make_keyword_step(word: Keyword) -> Callable[[CallForm, Parameters, Trier], CallForm]:
    """Makes the step that learns a keyword whose definition lists how it may be passed."""
    def learn(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
        is_of_attention = form.kind is Kind.LAYER and not word.in_layers
        if is_of_attention or form.limits.get(f"{word.name}_only"):
            return form
        return (_learn_by_sayings(form, word, parameters, trier)
                or _learn_square_causal(form, word, parameters, trier)
                or _hand_on_wrong_flag(form, word, parameters, trier))

    return learn


def _learn_by_sayings(form: CallForm, word: Keyword, parameters: Parameters,
                      trier: Trier) -> CallForm | None:
    """Adds a keyword in the first of its sayings that answers rightly."""
    is_causal = form.is_always_causal  # then what lies to the right is moot
    sayings = list(word.sayings)
    if word.counts and form.arrangement.shape.startswith("(B·H,"):  # heads lie in the batch
        repeated = _REPEATED_BY_HEAD[form.lift].format(word.name)
        sayings.append(Saying(repeated, "of each batch entry, once for each of its heads"))
    if is_causal:  # what needs the causal flag comes first
        sayings.sort(key=lambda each: word.needs_causal not in each.limits)
    for saying in sayings:
        flag = {"causal": True} if word.needs_causal in saying.limits else {}
        if flag and "causal" not in form.keywords:
            continue
        problem = square_problem(form) if flag or word.name == "causal" else plain_problem(form)
        value = saying.posed
        if word.name in AXES:
            value = sample_array(word.name, problem.sizes, problem.dtype)
        posed = problem.but(**{**flag, word.name: value})
        without = expect_usual(form, problem.but(**flag))
        if without.gap(expect_usual(form, posed).output)[0] <= tolerance_of(posed.dtype):
            continue  # it changes nothing: who ignores it is right, too
        candidates = bind_keyword(form, word.name, parameters, [saying])
        if found := find_first_right(candidates, posed, trier):
            return _limit_rare_values(found, word, posed, trier)
    return None


_REPEATED_BY_HEAD: Mapping[str, str] = {
    "": "np.repeat({0}, H)", "torch": "{0}.repeat_interleave(H)", "jax": "jnp.repeat({0}, H)"}
"""By lift, the Python that repeats an array of the batch (B,) for each head, (B·H,)."""


def _limit_rare_values(form: CallForm, word: Keyword, posed: AnyProblem, trier: Trier) -> CallForm:
    """Adds the limit for rare values where the callee raises at values (B,H) of each entry."""
    if not word.is_from_place or word.rare is None:
        return form
    sizes = posed.sizes
    of_entries = np.broadcast_to(getattr(posed, word.name), (sizes.B, sizes.H)).copy()
    if trier.answer(form, posed.but(**{word.name: of_entries})) is not None:
        return form
    return replace(form, limits={**form.limits, word.rare.limit: True})


def _learn_square_causal(form: CallForm, word: Keyword, parameters: Parameters,
                         trier: Trier) -> CallForm | None:
    """Adds a causal flag that is right where T = S and raises elsewhere."""
    before = trier.nearest
    if word.name != "causal" or form.attends_to_itself:
        return None
    if before is None or before.progress is not Progress.RAISED:
        return None
    squares = replace(form, limits={**form.limits, "causal_lengths": "equal"}).with_remarks(
        f"With the causal flag it takes T = S only: else {before.objection}.")
    return _learn_by_sayings(squares, word, parameters, trier)


def _hand_on_wrong_flag(form: CallForm, word: Keyword, parameters: Parameters,
                        trier: Trier) -> CallForm:
    """Adds a flag that has the keyword's name and changes the output in another way; a check tells
    why. Left out, a wrong flag would never be judged.
    """
    nearest = trier.nearest
    if word.annotation != "bool" or not word.hides or nearest is None:
        return form
    if nearest.progress is not Progress.OTHER_NUMBERS or not nearest.form.bindings:
        return form
    tried = nearest.form.bindings[-1]
    is_flag = any(each.name == tried.parameter and isinstance(each.default, bool) and not each.tried_as
                  for each in parameters[tried.at])
    if not is_flag or tried.keyword != word.name:
        return form
    why = trier.explain(nearest.form, square_problem(nearest.form).but(**{word.name: True}))
    said = say_handed_on(tried.parameter, word.name, why or nearest.objection)
    return replace(form, bindings=nearest.form.bindings, limits=nearest.form.limits,
                   remarks=(*nearest.form.remarks, said))


def _learn_past(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds past keys and values, which are passed together and lie alike."""
    problem = plain_problem(form)
    if form.kind is Kind.LAYER or not isinstance(problem, Problem):
        return form
    sizes = problem.sizes
    found = _learn_pair(form, parameters, trier, split_past(problem, sizes.S // 2), CACHED)
    if found is form or form.attends_to_itself:
        return found
    if trier.is_right(found, split_past(problem, sizes.S - sizes.T - 1)):
        return found
    return replace(found, limits={**found.limits, **EQUAL_PAST})


def _learn_segments(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds segments of queries and of keys, which are passed together."""
    problem = plain_problem(form)
    if form.kind is Kind.LAYER:
        return form
    made = {name: sample_array(name, problem.sizes, problem.dtype) for name in SEGMENTED}
    both = _learn_pair(form, parameters, trier, problem.but(**made), SEGMENTED)
    return _learn_shared_segments(form, parameters, trier) or form if both is form else both


_SHARED_SAYINGS = (Saying("query_segments", "of queries and keys alike"),
                   Saying("query_segments.swapaxes(0, 1)", "(T,B), of queries and keys alike"))


def _learn_shared_segments(form: CallForm, parameters: Parameters,
                           trier: Trier) -> CallForm | None:
    """Adds one array of segments, which serves for queries and keys."""
    queries, keys = SEGMENTED
    limits = {**form.limits, "segments_are_shared": True}
    problem = plain_problem(form, S=plain_problem(form).sizes.T)
    segments = sample_array(queries, problem.sizes, problem.dtype)
    posed = problem.but(**dict.fromkeys(SEGMENTED, segments))
    bound = bind_keyword(replace(form, limits=limits), queries, parameters, _SHARED_SAYINGS)
    shared = (replace(each, bindings=(*each.bindings, Binding(keys, "", ""))) for each in bound)
    return find_first_right(shared, posed, trier)


def _learn_pair(form: CallForm, parameters: Parameters, trier: Trier, posed: AnyProblem,
                pair: Sequence[str]) -> CallForm:
    """Adds two keywords that are passed together, in the first pair of sayings that is right."""
    name, beside = pair
    for one, other in zip(KEYWORDS[name].sayings, KEYWORDS[beside].sayings, strict=True):
        both = (each for first in bind_keyword(form, name, parameters, [one])
                for each in bind_keyword(first, beside, parameters, [other]))
        if found := find_first_right(both, posed, trier):
            return found
    return form


def _learn_compiling(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """Compiles the call by jax.jit, as JAX is meant to run, if it is right so."""
    if form.lift != "jax" or form.family is CallableKind.KERAS:
        return form
    compiled = replace(form, is_compiled=True)
    return compiled if trier.is_right(compiled, plain_problem(form)) else form


def _learn_plain_order(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """Copies arrays into plain order if PyTorch asks a function for it at small sizes."""
    if form.is_contiguous or form.lift != "torch" or form.is_class:
        return form
    small = plain_problem(form, **{**_SMALL_SIZES, **form.sizes})
    return replace(form, is_contiguous=trier.answer(form, small) is None and trier.asks_contiguous)


def _learn_grouping(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Passes `enable_gqa` where there are fewer key/value heads than query heads."""
    has_flag = any(each.name == "enable_gqa" for each in parameters[Site.CALL])
    if form.kind is Kind.LAYER or not has_flag:
        return form
    flagged = replace(form, arguments={**form.arguments, "enable_gqa": "Hkv != H"})
    return flagged if trier.is_right(flagged, plain_problem(form, H=6)) else form


def learn_weights(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds weights that come back always, or if a flag asks for them. Their rows sum to 1, which
    tells them from logits. Whether they are right is for the suite to judge.
    """
    if form.arrangement.mapped_axes or form.reading is None:
        return form
    averaging = {each.name for each in parameters[Site.CALL]} & {"average_attn_weights"}
    known = replace(form, arguments={**form.arguments, **dict.fromkeys(averaging, "False")})
    flagged = bind_keyword(known, "return_weights", parameters, [Saying("True")])
    named = _list_flag_options(known, parameters)
    for option in (known, *flagged, *named):
        for found in _list_with_weights(option, trier):
            return found
    return _hand_on_wrong_weights(form, named, trier)


_WEIGHTS_FLAG = re.compile(r"(return|need|output|with|give)s?_(attn_|attention_)?(prob|weight)")


def _list_flag_options(form: CallForm, parameters: Parameters) -> list[CallForm]:
    taken = {each.parameter for each in form.bindings}
    named = [replace(each, tried_as="return_weights") for each in parameters[Site.CALL]
             if each.default is False and each.name not in taken
             and _WEIGHTS_FLAG.match(normalise_name(each.name))]
    return list(bind_keyword(form, "return_weights", {Site.CALL: named}, [Saying("True")]))


def _hand_on_wrong_weights(form: CallForm, flagged: list[CallForm], trier: Trier) -> CallForm:
    """Adds what a flag returns as weights though its rows do not sum to 1; a check tells why."""
    against = ("the rows of what comes back then do not sum to 1, as those of weights do (they "
               "may be logits)")
    for option in flagged:
        for found in _list_with_weights(option, trier, are_weights=False):
            name = found.parameter_for("return_weights")
            said = say_handed_on(name, "return_weights", against)
            return replace(found, remarks=(*form.remarks, said))
    return form


def _list_with_weights(form: CallForm, trier: Trier, *,
                       are_weights: bool = True) -> Iterator[CallForm]:
    """Lists the form with each array that may be weights, whose rows sum to 1 if `are_weights`."""
    asked = plain_problem(form).but(return_weights=True)
    raw = trier.call_raw(replace(form, reading=None),
                         asked if "return_weights" in form.keywords else plain_problem(form))
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    for found in trier.find_outputs(form, raw, asked, expect_usual(form, asked).output.shape):
        for path, back, limits in trier.find_weights(raw, asked, are_weights=are_weights):
            reading = replace(form.reading, asked_path=found.reading.path, weights_path=path,
                              weights_layout=back)
            candidate = replace(form, reading=reading, limits={**form.limits, **limits})
            if trier.is_right(candidate, asked) and trier.is_right(candidate, plain_problem(form)):
                yield candidate


def learn_log_sum_exps(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Adds log-sum-exps that come back always, if they are near the right ones, to base e or 2;
    and those that a flag asks for, which the suite judges.
    """
    if form.arrangement.mapped_axes or form.kind is Kind.LAYER:
        return form
    if form.reading is None or form.reading.weights_path:
        return form
    for option in (form, *bind_keyword(form, LSE_KEYWORD, parameters, [Saying("True")])):
        for found in _list_with_log_sum_exps(option, trier):
            return found
    return _note_other_numbers(form, trier)


def _list_with_log_sum_exps(form: CallForm, trier: Trier) -> Iterator[CallForm]:
    """Lists the form with log-sum-exps, wherever they may be in what comes back."""
    plain, is_asked = plain_problem(form), LSE_KEYWORD in form.keywords
    asked = plain.but(**{LSE_KEYWORD: True})
    raw = trier.call_raw(replace(form, reading=None), asked if is_asked else plain)
    truth = expect_usual(form, asked)
    assert form.reading is not None  # the output was found before
    if raw is None:
        return
    outputs = trier.find_outputs(form, raw, asked, truth.output.shape)
    for output, (path, back, found) in product(outputs, trier.find_log_sum_exps(raw, asked)):
        reading = replace(form.reading, asked_path=output.reading.path, weights_path=path,
                          weights_layout=back, extra_keyword=LSE_KEYWORD)
        candidate = replace(form, reading=reading)
        is_near = any(np.allclose(found, truth.lse / unit, atol=tolerance_of(asked.dtype))
                      for unit in (1.0, math.log(2)))
        if not is_asked and not is_near:
            continue
        if trier.is_right(candidate, asked) and trier.is_right(candidate, plain):
            yield candidate


def _note_other_numbers(form: CallForm, trier: Trier) -> CallForm:
    """Adds a remark on an array in the shape of log-sum-exps that holds other numbers."""
    raw = trier.call_raw(replace(form, reading=None), plain_problem(form))
    found = [] if raw is None else list(trier.find_log_sum_exps(raw, plain_problem(form)))
    if not found:
        return form
    path, back, _ = found[0]
    callee = trier.process.examine(form.target) if form.reading is not None else None
    if not callee or not any(_LSE_WORDS.search(text) for text in (callee.name, *callee.docs)):
        return form.with_remarks(
            f"answer{path} has the shape of log-sum-exps, and other numbers: it is not judged.")
    assert form.reading is not None  # its callee was examined
    reading = replace(form.reading, asked_path=form.reading.path, weights_path=path,
                      weights_layout=back, extra_keyword=LSE_KEYWORD)
    return replace(form, reading=reading).with_remarks(
        f"answer{path} is handed on as `return_lse`, but it is no log-sum-exp: attnspec check "
        "says what is wrong.")


_LSE_WORDS = re.compile(r"(?<![a-z])lse(?![a-z])|log_?sum_?exp|log of (the|each)\b[^.]*\bsum",
                        re.IGNORECASE)


_WORDS_WITH_SAYINGS = sorted((word for word in KEYWORDS.values() if word.sayings and not word.beside),
                             key=lambda word: bool(word.needs_causal))
"""The keywords that are learned by their sayings; those that need the causal flag follow it."""
_SMALL_SIZES: Mapping[str, int] = {"H": 2, "Hkv": 2, "T": 2, "S": 2, "D": 1, "Dv": 1}
LEARNING_STEPS: tuple[tuple[str, Callable[[CallForm, Parameters, Trier], CallForm]], ...] = (
    ("", _learn_plain_order), ("mask", learn_full_mask), ("bias", learn_bias),
    ("mask", learn_partial_mask), ("mask", learn_mask_as_bias),
    *((word.name, _make_keyword_step(word)) for word in _WORDS_WITH_SAYINGS),
    (CACHED[0], _learn_past), (SEGMENTED[0], _learn_segments), ("return_weights", learn_weights),
    (LSE_KEYWORD, learn_log_sum_exps), ("heads", _learn_grouping), ("", _learn_compiling))
"""By keyword, the steps that learn it, in this order."""
_NAMES_OF_OTHERS: Mapping[str, frozenset[str]] = {
    "bias": frozenset(SYNONYMS["mask"]), "causal": frozenset(SYNONYMS["mask"])}
"""By keyword, the parameters that may mean it, but more likely mean another."""
