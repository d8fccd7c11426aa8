"""Finds the form of a callable by one search, each step of which an answer proves.

A form says how arrays lie and what every parameter is given. Many are tried, the likeliest first
(`function_forms`, `layers`): each is written as an adapter, called, and compared with the
definition (`trial_adapter`). The first that is right in two problems ends the search.

Where none is right, these are tried in turn: one plain mistake that explains all numbers
(`mistakes`); what the nearest answer suggests (`suggestions`); the layer with its rotation off
(`turning`), before it adds its input, and without a bias of its own (`inner_bias`); and pages that
are all full. Else TargetError says how near the search came.

The form that was found is completed: with a memory, with keywords by their names (`learning`) and
by what they do (`unnamed`), with variants that must answer alike, and with doubts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.scaffold.callee_process import OutOfTime
from attnspec.scaffold.doubts import doubt_causality, warn_of_inverted_mask, warn_of_overflow
from attnspec.scaffold.examined import ExaminedCallable, spread_inputs
from attnspec.scaffold.form import CallForm, Parameters, Site
from attnspec.scaffold.function_forms import (
    list_function_forms,
    list_packed_forms,
    list_paged_forms,
    note_ragged_batches,
)
from attnspec.scaffold.inner_bias import list_bias_switches, measure_bias
from attnspec.scaffold.layers import hand_memory, limit_to_several_heads, list_class_forms, list_tree_forms
from attnspec.scaffold.learning import learn_keywords
from attnspec.scaffold.meaning import DESTINATION, find_unknown
from attnspec.scaffold.mistakes import MISTAKES
from attnspec.scaffold.probe_problems import (
    CROSS_SIZES,
    OTHER_SCALES,
    AnyProblem,
    list_expected,
    measure_unlikeness,
    plain_problem,
    tolerance_of,
)
from attnspec.scaffold.suggestions import (
    adds_its_input,
    find_output_projection,
    list_suggestions,
    settle_own_parameters,
)
from attnspec.scaffold.trial_adapter import Attempt, Progress, ReadOutput, Trier
from attnspec.scaffold.turning import judge_handed_angles, judge_without_rotation, list_rotation_switches
from attnspec.scaffold.unnamed import learn_unnamed
from attnspec.scaffold.variants import add_mode_variants
from attnspec.scaffold.writing.telling import describe_call


@dataclass(frozen=True, slots=True)
class Pose:
    """Sizes and limits under which every form is tried. A pose sets other lengths of our axes, as
    many keys as queries, float16, or one number of heads.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    is_square: bool = False
    is_half: bool = False
    heads: int = 0

    def may_help(self, trier: Trier, *, is_class: bool) -> bool:
        """Says whether this pose can tell anything new. Other lengths are tried on functions
        alone. They and float16 are tried on callees that raise at the usual ones, as kernels do.
        """
        has_raised = trier.nearest is not None and trier.nearest.progress is Progress.RAISED
        return not (self.sizes and is_class) and (has_raised or not (self.sizes or self.is_half))

    def apply_to(self, form: CallForm, trier: Trier) -> CallForm | None:
        """Returns the form in this pose, or None where the pose tells nothing new."""
        if not self.may_help(trier, is_class=form.is_class) or (
                self.is_square and (form.attends_to_itself or form.limits.get("one_memory"))):
            return None  # where the memory is the query itself, any order of the two is right
        if self.heads:
            return _fix_heads(form, self.heads)
        limits = {**form.limits, "self_attention_only": True} if self.is_square else form.limits
        return replace(form, limits=limits, sizes={**self.sizes, **form.sizes},
                       dtype=DType.FLOAT16 if self.is_half else form.dtype)


def _fix_heads(form: CallForm, heads: int) -> CallForm:
    fixed = replace(form, fixed_heads=heads, sizes={**form.sizes, "H": heads, "Hkv": heads})
    said = f"It reads the number of heads from its module, and takes {heads} only."
    return fixed.with_remarks(said)


_OTHER_WIDTH = 12
_MOST_HEADS, _MOST_NUMBERS = 128, 4


def _list_fixed_heads(callee: ExaminedCallable) -> Sequence[int]:
    """Lists the numbers of its module that may be its number of heads, likely names first."""
    named = sorted(callee.module_numbers, key=lambda name: ("head" not in name.lower(), name))
    likely = dict.fromkeys(callee.module_numbers[name] for name in named
                           if 1 < callee.module_numbers[name] <= _MOST_HEADS)
    return [*likely][:_MOST_NUMBERS]


_WIDE_SIZES, _LONG_SIZES = {"D": 64, "Dv": 64}, {"T": 128, "S": 256, "D": 64, "Dv": 64}
"""The sizes of fused kernels that take nothing small."""

_POSES = (Pose(), Pose(is_square=True), Pose(is_half=True),
          *(Pose(sizes, is_square, is_half)
            for sizes, is_square, is_half in itertools.product(
                (_WIDE_SIZES, _LONG_SIZES), (False, True), (False, True))))


def find_form(target: str, trier: Trier) -> CallForm:
    """Finds the form of a target. Raises TargetError, which says how far the search came."""
    callee, gathered = spread_inputs(trier.process.examine(target))
    trier.gathered_inputs = gathered
    try:
        ways = (_find_for_aspects, _find_right, _find_with_mistake, _find_as_suggested,
                _find_without_rotation,
                _find_before_sum, _find_without_bias, _find_with_full_pages)
        found = next(filter(None, (way(callee, trier) for way in ways)), None)
    except OutOfTime as late:
        raise TargetError(f"{late}{_describe_nearest(trier.nearest)}") from None
    if found is None:
        raise TargetError(_describe_failure(callee, trier))
    return found


def _find_right(callee: ExaminedCallable, trier: Trier,
                change: Callable[[CallForm], CallForm] | None = None) -> CallForm | None:
    """Finds and completes the first form that is right in any pose, once it is changed so."""
    fixed = _list_fixed_heads(callee)
    for pose in (*_POSES[:2], *(Pose(heads=heads) for heads in fixed), *_POSES[2:]):
        for each in _list_forms(callee, trier, pose):
            form = change(each) if change else each
            found = _try_form(form, trier) or _try_contiguous(form, trier)
            if found is not None and (not found.is_guess or _is_right_at_two_widths(found, trier)):
                more = plain_problem(found, H=CROSS_SIZES.H + 1, Hkv=CROSS_SIZES.H + 1)
                if CROSS_SIZES.H in fixed and not trier.is_right(found, more):
                    found = _fix_heads(found, CROSS_SIZES.H)
                return _complete_form(settle_own_parameters(found, trier), callee, trier)
    return None


def _find_for_aspects(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form of a function with parameters that an aspect learns by trying, or None."""
    for part in load_parts("search"):
        ways, until = part.parameters_of(callee), trier.tried_count + part.MOST_TRIES
        for known in ways:
            for pose in (Pose(), Pose(_WIDE_SIZES, is_half=True)):
                posed = (pose.apply_to(form, trier)
                         for form in list_paged_forms(known.callee, trier))
                paged = filter(None, posed)
                forms = itertools.chain(paged, _list_forms(known.callee, trier, pose))
                if found := part.find_form(forms, known, _try_form, trier, until):
                    return _complete_form(found, known.callee, trier)
        if ways:
            trier.forget_nearest()
            trier.mistaken_forms.clear()
    return None


def _find_with_mistake(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form in which one plain mistake explains all numbers, with a warning."""
    for form in trier.mistaken_forms:
        if form.is_guess and not _is_right_at_two_widths(form, trier):
            continue
        says = MISTAKES[form.mistake].says
        warning = (f"WRONG: it is attention, but {says}. The adapter is written as if it were not "
                   "so: attnspec check judges it, and all else.")
        return _complete_form(form.with_warning(warning), callee, trier)
    return None


_KEYS_OF_TWO_PAGES = 8
"""The number of keys that fill two pages of a trial."""


def _find_with_full_pages(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form of a function that is right only with full pages, with a warning."""
    nearest = trier.nearest
    for form in () if callee.is_class else list_paged_forms(callee, trier):
        if found := _try_form(replace(form, sizes={**form.sizes, "S": _KEYS_OF_TWO_PAGES}), trier):
            warning = ("WRONG: it is right only where all keys fill their pages: else it reads "
                       "the rest of the last page. attnspec check judges it, and all else.")
            return _complete_form(found.with_warning(warning), callee, trier)
    trier.nearest = nearest
    return None


def _complete_form(form: CallForm, callee: ExaminedCallable, trier: Trier) -> CallForm:
    parameters = all_parameters(callee)
    called = parameters[Site.CALL]
    every = [*callee.parameters, *callee.constructor_parameters, *callee.call_parameters]
    form = hand_memory(limit_to_several_heads(form, trier), called, trier)
    form = learn_unnamed(learn_keywords(form, parameters, trier), parameters, trier)
    form = judge_handed_angles(warn_of_inverted_mask(form, callee), parameters, trier)
    form = add_mode_variants(note_ragged_batches(form, trier), parameters, trier)
    return doubt_causality(warn_of_overflow(form, trier), callee, every)


def _find_as_suggested(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form that is right once a suggestion of its nearest answer is followed."""
    nearest, mistaken = trier.nearest, list(trier.mistaken_forms)
    for suggestion in list_suggestions(callee, nearest):
        trier.forget_nearest()
        trier.mistaken_forms.clear()
        seen = suggestion.callee
        found = _find_right(seen, trier, suggestion.change) or _find_with_mistake(seen, trier)
        now = trier.nearest
        answers_now = now is not None and now.progress is Progress.OTHER_NUMBERS
        answered_before = nearest is None or nearest.progress >= Progress.OTHER_NUMBERS
        if found is None and answers_now and not answered_before:
            found = (_find_without_rotation(seen, trier) or _find_before_sum(seen, trier)
                     or _find_without_bias(seen, trier))
        if found is not None:
            return suggestion.apply_to(found)
    trier.nearest, trier.mistaken_forms[:] = nearest, mistaken
    return None


def _find_without_rotation(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form with its rotation switched off; None if that is not what is wrong."""
    nearest = trier.nearest
    if nearest is None or nearest.progress is not Progress.OTHER_NUMBERS or not callee.is_class:
        return None
    known, mistaken = replace(nearest.form, reading=None), list(trier.mistaken_forms)
    for switch in list_rotation_switches(known, all_parameters(callee), trier):
        trier.mistaken_forms.clear()
        found = (_find_right(callee, trier, switch.switch_off)
                 or _find_with_mistake(callee, trier))
        if found:
            return judge_without_rotation(found, switch, trier)
    trier.nearest, trier.mistaken_forms[:] = nearest, mistaken
    return None


def _find_before_sum(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the form of a layer that adds its input, judged before the sum; else None."""
    nearest = trier.nearest
    if nearest is None or nearest.progress is not Progress.OTHER_NUMBERS:
        return None
    if not find_output_projection(nearest.form):
        return None
    mistaken = list(trier.mistaken_forms)
    trier.mistaken_forms.clear()
    found = _find_right(callee, trier,
                        lambda form: replace(form, judged_part=find_output_projection(form)))
    found = found or _find_with_mistake(callee, trier)
    trier.nearest, trier.mistaken_forms[:] = nearest, mistaken
    if not found or not found.judged_part or not adds_its_input(found, trier):
        return None
    return found.with_remarks("It adds its input (a residual). Judged is what its "
                              f"{found.judged_part} returns, to which nothing is added: that the "
                              "sum is right was seen in one case.")


def _find_without_bias(callee: ExaminedCallable, trier: Trier) -> CallForm | None:
    """Finds the nearest form without a bias of its own, or None. Raises TargetError."""
    nearest = trier.nearest
    bias = None
    if nearest is not None and nearest.progress is Progress.OTHER_NUMBERS:
        bias = measure_bias(nearest.form, trier)
    if nearest is None or bias is None:
        trier.nearest = nearest
        return None
    unread = replace(nearest.form, reading=None)
    for off, how in list_bias_switches(unread, all_parameters(callee), trier):
        if found := _try_form(off, trier):
            said = (f"WITHOUT ITS BIAS: it adds {bias.words}. Its {how} in the adapter, so that "
                    "everything else is judged. With it, it was right in the one case that was "
                    "tried.")
            whole = _complete_form(found.with_warning(said), callee, trier)
            if not bias.has_one_slope:
                return whole
            doubt = ("ONE SLOPE FOR ALL HEADS: where positions are told by slopes (ALiBi), each "
                     "head has its own. Is that meant?")
            demanded = (*whole.demanded_keywords, "alibi_slopes")
            return replace(whole, demanded_keywords=demanded).with_warning(doubt)
    raise TargetError(
        f"{callee.target} is attention ({describe_call(nearest.form)}) with {bias.words}. "
        "attnspec would judge it with that switched off: keep it in a buffer of the module, let a "
        "flag switch it off, or let a parameter (`alibi_slopes`, or `bias`) hand it over, which "
        "is judged too.")


def _try_contiguous(form: CallForm, trier: Trier) -> CallForm | None:
    """Tries the form with its arrays in plain order, if the callee has asked for that."""
    if not trier.asks_contiguous or form.lift != "torch" or form.is_class:
        return None
    return _try_form(replace(form, is_contiguous=True), trier)


def _is_right_at_two_widths(form: CallForm, trier: Trier) -> bool:
    """Says whether the form is right with another width, number of heads and head width too."""
    return trier.is_right(form,
                          plain_problem(form, H=CROSS_SIZES.H + 1, Hkv=CROSS_SIZES.H + 1,
                                        D=_OTHER_WIDTH, Dv=_OTHER_WIDTH))


def _list_forms(callee: ExaminedCallable, trier: Trier, pose: Pose) -> Iterator[CallForm]:
    if not pose.may_help(trier, is_class=callee.is_class):
        return iter(())
    if callee.is_class:
        forms = list_class_forms(callee, trier)
    else:
        forms = itertools.chain(list_tree_forms(callee, trier), list_packed_forms(callee, trier),
                                list_function_forms(callee, trier),
                                list_paged_forms(callee, trier))
    return (posed for form in forms if (posed := pose.apply_to(form, trier)) is not None)


def all_parameters(callee: ExaminedCallable) -> Parameters:
    """Returns the parameters of its call, and of its constructor if it is a class."""
    if callee.is_class:
        return {Site.CALL: callee.call_parameters, Site.CONSTRUCTOR: callee.constructor_parameters}
    return {Site.CALL: callee.parameters}


def _try_form(form: CallForm, trier: Trier) -> CallForm | None:
    """Returns the form that is right, with any output, default scale and causality; or None."""
    problem = plain_problem(form)
    returned = trier.call_raw(form, problem)
    if returned is None:
        return None
    shape = next(list_expected(problem, "")).output.shape
    outputs = trier.find_outputs(form, returned, problem, shape)
    always = form.made_always_causal
    for known in (form, *_list_other_scales(form), always, *_list_other_scales(always)):
        problem_of_it = plain_problem(known)
        truths = list(list_expected(problem_of_it, known.default_scale))
        for output in outputs:
            if any(truth.gap(output.array)[0] <= tolerance_of(form.dtype) for truth in truths):
                candidate = replace(known, reading=output.reading)
                if trier.is_right(candidate, problem_of_it):
                    return candidate
    trier.keep_mistaken(form, problem, outputs)
    _keep_nearest(form, problem, outputs, trier)
    return None


_SCALED_IN_WEIGHTS = (": attnspec check convicts it. If its weights are drawn for that scale, as "
                      "those of T5 are, multiply `w_query` by what is missing, in the adapter.")


def _list_other_scales(form: CallForm) -> Iterator[CallForm]:
    """Lists the form with each default scale that a library may have."""
    end = _SCALED_IN_WEIGHTS if form.kind is Kind.LAYER else "."
    for name in OTHER_SCALES:
        said = f"Its default scale is {name}, not 1/sqrt(D){end}"
        yield replace(form, default_scale=name).with_remarks(said)


def _keep_nearest(form: CallForm, problem: AnyProblem, outputs: list[ReadOutput],
                  trier: Trier) -> None:
    """Keeps the output that is nearest to the definition, with what would make it right."""
    truth = next(list_expected(problem, ""))
    for output in outputs:
        without_input = output.array
        if output.array.shape == problem.query.shape:
            without_input = output.array - problem.query
        adds_input = truth.gap(without_input)[0] <= tolerance_of(problem.dtype)
        said, distance = "", 0.0
        if adds_input:
            said = "; it adds its input (a residual), without which it would be right"
        else:
            distance = measure_unlikeness(truth, output.array)
        if DESTINATION in form.arguments.values() and np.isnan(output.array).any():
            said = ("; it was handed an array full of NaN to write into: it leaves some there, "
                    "or adds to it")
        trier.keep_attempt(Attempt(replace(form, reading=output.reading), Progress.OTHER_NUMBERS,
                                   f"its output is {truth.gap(output.array)[1]}{said}", distance))


def _describe_failure(callee: ExaminedCallable, trier: Trier) -> str:
    """Says what was tried, which form came nearest, and what stood against it."""
    known = all_parameters(callee)
    if not any(known.values()):
        return (f"{callee.target} names no parameters, as a function that a decorator returns "
                "without @functools.wraps(function). Name them, in a wrapper if it is not yours.")
    unknown = [each.name for at, listed in known.items() for each in find_unknown(listed, at)]
    said = ""
    if unknown:
        said = (f" What its {' and '.join(unknown)} means could not be found out, and it has no "
                "default.")
    return (f"{callee.target} does not compute attention in any of the {trier.tried_count} forms "
            f"that were tried.{_describe_nearest(trier.nearest)}{said}{_describe_numbers(callee)} "
            "Write its adapter by hand: docs/writing-an-adapter.md.")


def _describe_nearest(nearest: Attempt | None) -> str:
    if nearest is None:
        return ""
    return f" Nearest is {describe_call(nearest.form)}; but {nearest.objection}."


def _describe_numbers(callee: ExaminedCallable) -> str:
    """Says what to do about sizes that the callee reads from its module; often empty."""
    if not callee.module_numbers:
        return ""
    read = " and ".join(f"{name} = {number}" for name, number in callee.module_numbers.items())
    return (f" It reads {read} from its module, and it was tried with other sizes: if that is the "
            "number of heads or a width, make it a parameter "
            f"(`num_heads={next(iter(callee.module_numbers))}`).")
