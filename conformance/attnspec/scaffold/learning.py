"""Which keywords a callee understands, one by one, each step proved by an answer. The ways to say one are data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attnspec.core.keyword import Acts, Keyword, Saying
from attnspec.core.keywords import AXES, CACHED, KEYWORDS, OFF, SEGMENTED
from attnspec.core.nouns import Kind
from attnspec.problems.keyword_arrays import sample_array, split_past
from attnspec.problems.problem import Problem
from attnspec.scaffold.beside import LSE_KEYWORD, learn_log_sum_exps, learn_weights
from attnspec.scaffold.decoders import EQUAL_PAST, learn_cache
from attnspec.scaffold.extended import Parameters, bind_keyword
from attnspec.scaffold.form import TEMPLATES, Binding, CallableKind, CallForm, Site
from attnspec.scaffold.lookup import SYNONYMS, find_parameters, normalise_name
from attnspec.scaffold.pages import limit_to_named_pages, may_learn_keyword
from attnspec.scaffold.probe_problems import (
    AnyProblem,
    expect_usual,
    plain_problem,
    sample_bias,
    sample_mask,
    square_problem,
    tolerance_of,
)
from attnspec.scaffold.row_masks import (
    HIDES_BOTH,
    HIDES_QUERIES,
    KEY_MASK_LIMITS,
    hides_keys_and_queries,
    read_as_key_mask,
)
from attnspec.scaffold.trial_adapter import Attempt, LimitValues, Progress, Trier
from attnspec.scaffold.writing.telling import say_handed_on

_MASK_SHAPES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "BHTS": (("{0}", ""), ("{0}.reshape(-1, *{0}.shape[2:])", "(B·H,T,S)")),
    "BTS": (("{0}[:, 0]", "(B,T,S)"), ("{0}[:, :1]", "(B,1,T,S)")),
    "BHS": (("{0}[:, :, 0]", "(B,H,S)"),),
    "BS": (("{0}[:, 0, 0]", "(B,S)"), ("{0}[:, :1, :1]", "(B,1,1,S)"), ("{0}[:, 0, :1]", "(B,1,S)")),
    "TS": (("{0}[0, 0]", "(T,S)"),),
}
"""By the axes along which a mask may differ, how (B,H,T,S) becomes what is taken, and its shape."""


def learn_keywords(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """The form with all keywords that have a parameter. One that gives other numbers is written in at its nearest
    reading, so that a check tells what is wrong; of one that cannot be used it is said, and demanded.
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
            form = _learn_square_mask(form, parameters, trier)
        names = _list_unused_parameters(form, keyword, parameters) if keyword else []
        if attempt and attempt.form.bindings and names:
            form = _hand_on_nearest(form, keyword, parameters, attempt, trier) or _leave_out_keyword(form, keyword,
                                                                                                     names[0], attempt)
    return form


def _learn_square_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """With a mask that raises wherever T ≠ S, and is right where T = S, as one that is cut to the queries' number."""
    if form.understands("mask") or form.attends_to_itself or form.takes_one_query:
        return form
    taken = {each.parameter for each in form.bindings}
    rest = {at: [each for each in listed if each.name not in taken] for at, listed in parameters.items()}
    said = "It takes a mask where T = S only."
    squares = replace(form, mask_of_squares=True, remarks=(*form.remarks, said))
    return _learn_mask(squares, tuple(_MASK_SHAPES), (*_list_truth_meanings(form), _find_added_meaning(form)), rest,
                       trier) or form


def _list_unused_parameters(form: CallForm, keyword: str, parameters: Parameters) -> list[str]:
    """The parameters by which somebody may mean a keyword that the form does not have."""
    if form.understands(keyword):
        return []
    used = {each.parameter for each in form.bindings}
    return [each.name for each in find_parameters(keyword, parameters[Site.CALL]) if each.name not in used
            and normalise_name(each.name) not in _NAMES_OF_OTHERS.get(keyword, ())]


def _leave_out_keyword(form: CallForm, keyword: str, parameter: str, attempt: Attempt) -> CallForm:
    """The form, and that a parameter could not be used as a keyword: no check of it may pass, unless it says itself
    what it does not take.
    """
    tried = next(each for each in reversed(attempt.form.bindings) if each.parameter)
    says = f" ({tried.says})" if tried.says else ""
    why = (f"It could not be used as `{keyword}`, so that keyword is left out. Nearest is "
           f"{tried.parameter}={tried.expression}{says}; but {attempt.objection}.")
    return form.leave_out(parameter, why, [keyword] if keyword in OFF and not attempt.is_refusal else [])


def _hand_on_nearest(form: CallForm, keyword: str, parameters: Parameters, attempt: Attempt,
                     trier: Trier) -> CallForm | None:
    """The form with a keyword at its nearest reading; None where nothing answered, and for a flag: of that, one reading
    is no nearer than another.
    """
    if keyword == "mask":
        name = _list_unused_parameters(form, keyword, parameters)[0]
        if on_queries := read_as_key_mask(form, name, trier):
            return hand_on(form, (on_queries,), KEY_MASK_LIMITS, HIDES_QUERIES)
        if hides_keys_and_queries(form, name, trier):
            return form.leave_out(name, HIDES_BOTH, [])
        attempt = _find_nearest_mask(form, parameters, trier) or attempt
    taken = {each.parameter for each in form.bindings}
    more = tuple(each for each in attempt.form.bindings if each not in form.bindings)
    is_flag = keyword not in KEYWORDS or keyword == "causal" or KEYWORDS[keyword].acts is Acts.ANSWER
    if is_flag or attempt.progress is not Progress.OTHER_NUMBERS or not more or taken & {each.parameter
                                                                                         for each in more}:
        return None
    return hand_on(form, more, attempt.form.limits, _explain_past(keyword, attempt, trier) or attempt.objection)


def _explain_past(keyword: str, attempt: Attempt, trier: Trier) -> str:
    """The plain mistake that explains what a form answers behind a past; empty for any other keyword."""
    problem = plain_problem(attempt.form)
    if keyword != CACHED[0] or not isinstance(problem, Problem):
        return ""
    return trier.explain(attempt.form, split_past(problem, problem.sizes.S // 2))


def hand_on(form: CallForm, more: Sequence[Binding], limits: LimitValues, against: str) -> CallForm:
    """The form with keywords more, and their limits, though this stands against them."""
    first = more[0]
    said = say_handed_on(first.parameter, first.keyword, against, first.says)
    return replace(form, bindings=(*form.bindings, *more), limits={**limits, **form.limits},
                   remarks=(*form.remarks, said))


def _find_nearest_mask(form: CallForm, parameters: Parameters, trier: Trier) -> Attempt | None:
    """The nearest reading of a mask among those that differ along as many axes as it takes."""
    taken = {each.parameter for each in form.bindings}
    rest = {at: [each for each in listed if each.name not in taken] for at, listed in parameters.items()}
    means = (*_list_truth_meanings(form), _find_added_meaning(form))
    for axes in _MASK_SHAPES:
        trier.nearest = None
        _learn_mask(form, [axes], means, rest, trier)
        if trier.nearest and trier.nearest.progress is Progress.OTHER_NUMBERS:
            return trier.nearest
    return None


def _find_first_right(forms: Iterable[CallForm], problem: AnyProblem, trier: Trier) -> CallForm | None:
    return next((form for form in forms if trier.is_right(form, problem)), None)


def _learn_full_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Truth values for every score."""
    return _learn_mask(form, ("BHTS",), _list_truth_meanings(form), parameters, trier) or form


def _learn_bias(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """What is added for every score."""
    problem = plain_problem(form)
    sayings = [Saying(expression.format("bias"), shape) for expression, shape in _MASK_SHAPES["BHTS"]]
    sayings += [Saying("[bias]", "in a list")]
    posed = problem.but(bias=sample_bias(problem.sizes, form.dtype))
    return _find_first_right(bind_keyword(form, "bias", parameters, sayings), posed, trier) or form


def _learn_partial_mask(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Truth values or what is added, the same along some axes; for a parameter that takes nothing better."""
    if form.parameter_for("mask"):
        return form
    taken, few = form.parameter_for("bias"), [axes for axes in _MASK_SHAPES if axes != "BHTS"]
    rest = {at: [each for each in listed if each.name != taken] for at, listed in parameters.items()}
    return _learn_mask(form, few, _list_truth_meanings(form), rest, trier) or _learn_mask(
        form, ["BHTS", *few], [_find_added_meaning(form)], rest, trier) or form


def _learn_mask_as_bias(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """A callee that takes no mask may take one as a bias, if -inf is no harm to it."""
    problem, as_mask = plain_problem(form), replace(form, limits={**form.limits, "bias_is_mask": True})
    is_asked = bool(form.parameter_for("bias")) and not form.parameter_for("mask")
    return as_mask if is_asked and trier.is_right(as_mask, problem.but(mask=sample_mask(problem.sizes))) else form


def _list_truth_meanings(form: CallForm) -> Sequence[tuple[str, str]]:
    """What True or False, or one or zero, may mean: the expression, and the meaning in words."""
    return (("{0}", "True where a query may attend"), ("~{0}", "True where a key is hidden"),
            (TEMPLATES[form.lift].number_mask, "1 where a query may attend, else 0"))


def _find_added_meaning(form: CallForm) -> tuple[str, str]:
    """The same, as numbers that are added."""
    return TEMPLATES[form.lift].added_mask, "added, 0 or -inf"


def _learn_mask(form: CallForm, all_axes: Sequence[str], means: Sequence[tuple[str, str]], parameters: Parameters,
                trier: Trier) -> CallForm | None:
    """With a mask that may differ along these axes, the first that are right, in one of these meanings."""
    problem = plain_problem(form)
    problem = plain_problem(form, S=problem.sizes.T) if form.mask_of_squares else problem
    for axes in all_axes:
        posed, limits = problem.but(mask=sample_mask(problem.sizes,
                                                     axes)), {} if axes == "BHTS" else {"mask_axes": axes}
        sayings = [Saying(meaning.format(expression.format("mask")), f"{says}{shape and f', {shape}'}", limits)
                   for expression, shape in _MASK_SHAPES[axes] for meaning, says in means]
        if found := _find_first_right(bind_keyword(form, "mask", parameters, sayings), posed, trier):
            return found
    return None


def _make_keyword_step(word: Keyword) -> Callable[[CallForm, Parameters, Trier], CallForm]:
    """For a keyword whose definition lists how it may be handed over."""
    def learn(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
        if (form.kind is Kind.LAYER and not word.in_layers) or form.limits.get(f"{word.name}_only"):
            return form
        if found := _learn_by_sayings(form, word, parameters, trier) or _learn_square_causal(form, word, parameters,
                                                                                             trier):
            return found
        return _hand_on_wrong_flag(form, word, parameters, trier)

    return learn


def _learn_by_sayings(form: CallForm, word: Keyword, parameters: Parameters, trier: Trier) -> CallForm | None:
    """With a keyword in the first of its sayings that is right."""
    is_causal = bool(form.limits.get("causal_only"))  # then what lies to the right is moot
    sayings = (*word.sayings, *_list_folded_sayings(form, word))
    for saying in sorted(sayings, key=lambda each: is_causal and word.needs_causal not in each.limits):
        flag = {"causal": True} if word.needs_causal in saying.limits else {}
        if flag and "causal" not in form.keywords:
            continue
        problem = square_problem(form) if flag or word.name == "causal" else plain_problem(form)
        value = sample_array(word.name, problem.sizes, problem.dtype) if word.name in AXES else saying.posed
        posed = problem.but(**{**flag, word.name: value})
        if not _changes_truth(form, posed, problem.but(**flag)):
            continue  # who ignores it is right, too
        if found := _find_first_right(bind_keyword(form, word.name, parameters, [saying]), posed, trier):
            return _limit_rare_values(found, word, posed, trier)
    return None


def _changes_truth(form: CallForm, posed: AnyProblem, without: AnyProblem) -> bool:
    """Whether a keyword changes what the definition says."""
    return expect_usual(form, without).gap(expect_usual(form, posed).output)[0] > tolerance_of(posed.dtype)


_REPEATED_BY_HEAD: Mapping[str, str] = {
    "": "np.repeat({0}, H)", "torch": "{0}.repeat_interleave(H)", "jax": "jnp.repeat({0}, H)"}
"""By lift, an array of the batch (B,) for each head, (B·H,)."""


def _list_folded_sayings(form: CallForm, word: Keyword) -> Iterator[Saying]:
    """How lengths are handed to a function whose heads are folded into its batch."""
    if word.counts and form.arrangement.shape.startswith("(B·H,"):
        yield Saying(_REPEATED_BY_HEAD[form.lift].format(word.name), "of each batch entry, once for each of its heads")


def _limit_rare_values(form: CallForm, word: Keyword, posed: AnyProblem, trier: Trier) -> CallForm:
    """The form with the limit of who does not take a keyword's rare values, where it raises at slopes of each entry."""
    if not word.is_from_place or word.rare is None:
        return form
    sizes = posed.sizes
    of_entries = np.broadcast_to(getattr(posed, word.name), (sizes.B, sizes.H)).copy()
    if trier.answer(form, posed.but(**{word.name: of_entries})) is not None:
        return form
    return replace(form, limits={**form.limits, word.rare.limit: True})


def _learn_square_causal(form: CallForm, word: Keyword, parameters: Parameters, trier: Trier) -> CallForm | None:
    """With a causal flag that raises wherever T ≠ S, and is right where T = S: many a mask is made of one length."""
    apart = trier.nearest
    if word.name != "causal" or form.attends_to_itself or apart is None or apart.progress is not Progress.RAISED:
        return None
    squares = replace(form, limits={**form.limits, "causal_lengths": "equal"},
                      remarks=(*form.remarks, f"With the causal flag it takes T = S only: else {apart.objection}."))
    return _learn_by_sayings(squares, word, parameters, trier)


def _hand_on_wrong_flag(form: CallForm, word: Keyword, parameters: Parameters, trier: Trier) -> CallForm:
    """With a flag that has the keyword's name and changes the output, but not as the keyword does: a check tells why.

    Left out, a wrong flag would never be judged. What a mask or a number means in other hands is anybody's guess.
    """
    nearest = trier.nearest
    is_near = nearest is not None and nearest.progress is Progress.OTHER_NUMBERS and bool(nearest.form.bindings)
    if nearest is None or not is_near or word.annotation != "bool" or not word.hides:
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
    """Past keys and values, which are given together and laid out alike."""
    problem = plain_problem(form)
    if form.kind is Kind.LAYER or not isinstance(problem, Problem):
        return form
    sizes = problem.sizes
    found = _learn_pair(form, parameters, trier, split_past(problem, sizes.S // 2), CACHED)
    if found is form or form.attends_to_itself or trier.is_right(found, split_past(problem, sizes.S - sizes.T - 1)):
        return found
    return replace(found, limits={**found.limits, **EQUAL_PAST})


def _learn_segments(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """Segments of queries and of keys, which are given together."""
    problem = plain_problem(form)
    if form.kind is Kind.LAYER:
        return form
    made = {name: sample_array(name, problem.sizes, problem.dtype) for name in SEGMENTED}
    both = _learn_pair(form, parameters, trier, problem.but(**made), SEGMENTED)
    return _learn_shared_segments(form, parameters, trier) or form if both is form else both


_SHARED_SAYINGS = (Saying("query_segments", "of queries and keys alike"),
                   Saying("query_segments.swapaxes(0, 1)", "(T,B), of queries and keys alike"))


def _learn_shared_segments(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm | None:
    """One array of segments, which serves for queries and keys."""
    queries, keys = SEGMENTED
    limits = {**form.limits, "segments_are_shared": True}
    problem = plain_problem(form, S=plain_problem(form).sizes.T)
    posed = problem.but(**dict.fromkeys(SEGMENTED, sample_array(queries, problem.sizes, problem.dtype)))
    shared = (replace(each, bindings=(*each.bindings, Binding(keys, "", "")))
              for each in bind_keyword(replace(form, limits=limits), queries, parameters, _SHARED_SAYINGS))
    return _find_first_right(shared, posed, trier)


def _learn_pair(form: CallForm, parameters: Parameters, trier: Trier, posed: AnyProblem,
                pair: Sequence[str]) -> CallForm:
    """With two keywords that are given together, in the first of their sayings, one by one, that is right."""
    name, beside = pair
    for one, other in zip(KEYWORDS[name].sayings, KEYWORDS[beside].sayings, strict=True):
        both = (each for first in bind_keyword(form, name, parameters, [one])
                for each in bind_keyword(first, beside, parameters, [other]))
        if found := _find_first_right(both, posed, trier):
            return found
    return form


def _learn_compiling(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """Under jax.jit, as JAX is meant to run, if it runs so."""
    if form.lift != "jax" or form.family is CallableKind.KERAS:
        return form
    compiled = replace(form, is_compiled=True)
    return compiled if trier.is_right(compiled, plain_problem(form)) else form


def _learn_plain_order(form: CallForm, _: Parameters, trier: Trier) -> CallForm:
    """In plain order, where a function of PyTorch asks for that at small sizes: reshaping copies nothing there."""
    if form.is_contiguous or form.lift != "torch" or form.is_class:
        return form
    small = plain_problem(form, **{axis: least for axis, least in _SMALL_SIZES.items() if axis not in form.sizes})
    return replace(form, is_contiguous=trier.answer(form, small) is None and trier.asks_contiguous)


def _learn_grouping(form: CallForm, parameters: Parameters, trier: Trier) -> CallForm:
    """A flag for fewer key/value heads is given where there are fewer."""
    if form.kind is Kind.LAYER or "enable_gqa" not in {each.name for each in parameters[Site.CALL]}:
        return form
    flagged = replace(form, arguments={**form.arguments, "enable_gqa": "Hkv != H"})
    return flagged if trier.is_right(flagged, plain_problem(form, H=6)) else form


_WORDS_WITH_SAYINGS = sorted((word for word in KEYWORDS.values() if word.sayings and not word.beside),
                             key=lambda word: bool(word.needs_causal))
"""Those that may need the causal flag come after it."""
_SMALL_SIZES: Mapping[str, int] = {"H": 2, "Hkv": 2, "T": 2, "S": 2, "D": 1, "Dv": 1}
LEARNING_STEPS: tuple[tuple[str, Callable[[CallForm, Parameters, Trier], CallForm]], ...] = (
    ("", _learn_plain_order), ("mask", _learn_full_mask), ("bias", _learn_bias), ("mask", _learn_partial_mask),
    ("mask", _learn_mask_as_bias),
    *((word.name, _make_keyword_step(word)) for word in _WORDS_WITH_SAYINGS), (CACHED[0], _learn_past),
    (SEGMENTED[0], _learn_segments),
    ("return_weights", learn_weights), (LSE_KEYWORD, learn_log_sum_exps), ("heads", _learn_grouping),
    ("", _learn_compiling))
"""What is learned of which keyword, in this order."""
_NAMES_OF_OTHERS: Mapping[str, frozenset[str]] = {
    "bias": frozenset(SYNONYMS["mask"]), "causal": frozenset(SYNONYMS["mask"])}
"""Parameters that may be meant, but more likely are another keyword's."""
