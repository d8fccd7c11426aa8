"""Finds the form of a callable: first how its arrays lie, then keyword by keyword, each step proved by an answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attnspec.core.errors import TargetError
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.scaffold.causality import with_doubt
from attnspec.scaffold.examined import Examined
from attnspec.scaffold.extended import Parameters
from attnspec.scaffold.form import At, CallForm
from attnspec.scaffold.gathered import spread_inputs
from attnspec.scaffold.inner_bias import measure_bias, switch_off
from attnspec.scaffold.layers import class_forms, function_forms, tree_forms
from attnspec.scaffold.learning import learned
from attnspec.scaffold.meaning import DESTINATION, unknown_ones
from attnspec.scaffold.memory import with_memory
from attnspec.scaffold.mistakes import MISTAKES
from attnspec.scaffold.modes import with_modes
from attnspec.scaffold.overflow import with_large_logits
from attnspec.scaffold.pages import paged_forms
from attnspec.scaffold.polarity import with_polarity
from attnspec.scaffold.probe_problems import CROSS, SCALES, AnyProblem, close, plain, truths, unlike
from attnspec.scaffold.ragged import packed_forms, with_ragged
from attnspec.scaffold.residual import adds_its_input, judged_before_sum, output_projection, tell_sum
from attnspec.scaffold.suggestions import suggestions_of, with_own_settled
from attnspec.scaffold.there import OutOfTime
from attnspec.scaffold.trial_adapter import Attempt, Output, Progress, Trier
from attnspec.scaffold.turning import rotation_switches, with_angles_handed, with_rotation_off
from attnspec.scaffold.unnamed import with_unnamed
from attnspec.scaffold.writing.telling import described


@dataclass(frozen=True, slots=True)
class Pose:
    """What a form may have to be put to: other lengths of our axes, as many keys as queries, float16, or one number
    of heads and no other.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    is_square: bool = False
    is_half: bool = False
    heads: int = 0

    def may_help(self, trier: Trier, *, is_class: bool) -> bool:
        """Whether it says anything new. Other lengths are for functions; they and float16 are for what raises at the
        usual ones, as kernels do.
        """
        has_raised = trier.nearest is not None and trier.nearest.step is Progress.RAISED
        return not (self.sizes and is_class) and (has_raised or not (self.sizes or self.is_half))

    def of(self, form: CallForm, trier: Trier) -> CallForm | None:
        """The form in this pose; None where it says nothing new."""
        if not self.may_help(trier, is_class=form.is_class) or (
                self.is_square and (form.attends_to_itself or form.limits.get("one_memory"))):
            return None  # where the memory is the query itself, any order of the two is right
        if self.heads:
            return _of_heads(form, self.heads)
        limits = {**form.limits, "self_attention_only": True} if self.is_square else form.limits
        return replace(form, limits=limits, sizes={**self.sizes, **form.sizes},
                       dtype=DType.FLOAT16 if self.is_half else form.dtype)


def _of_heads(form: CallForm, heads: int) -> CallForm:
    """The form for this number of heads alone."""
    return replace(form, heads=heads, sizes={**form.sizes, "H": heads, "Hkv": heads},
                   remarks=(*form.remarks, f"It reads the number of heads from its module, and takes {heads} only."))


_OTHER_WIDTH = 12
_MOST_HEADS, _MOST_NUMBERS = 128, 4


def _fixed_heads(callee: Examined) -> Sequence[int]:
    """What may be its number of heads: whole numbers of its module, those first whose names say so."""
    named = sorted(callee.numbers, key=lambda name: ("head" not in name.lower(), name))
    likely = dict.fromkeys(callee.numbers[name] for name in named if 1 < callee.numbers[name] <= _MOST_HEADS)
    return [*likely][:_MOST_NUMBERS]


_WIDE, _LONG = {"D": 64, "Dv": 64}, {"T": 128, "S": 256, "D": 64, "Dv": 64}
"""What fused kernels take that take nothing small."""

_POSES = (Pose(), Pose(is_square=True), Pose(is_half=True),
          *(Pose(sizes, is_square, is_half) for sizes in (_WIDE, _LONG) for is_square in (False, True)
            for is_half in (False, True)))


def form_of(target: str, trier: Trier) -> CallForm:
    """The form of the callable that `target` names. Raises TargetError, which says how far the search came."""
    callee, gathered = spread_inputs(trier.there.examined(target))
    trier.gathered = gathered
    try:
        ways = (_of_aspects, _form_of, _with_mistake, _as_suggested, _without_rotation, _before_sum, _without_bias,
                _with_full_pages)
        found = next(filter(None, (way(callee, trier) for way in ways)), None)
    except OutOfTime as late:
        raise TargetError(f"{late}{_told(trier.nearest)}") from None
    if found is None:
        raise TargetError(_failure(callee, trier))
    return found


def _form_of(callee: Examined, trier: Trier, change: Callable[[CallForm], CallForm] | None = None) -> CallForm | None:
    fixed = _fixed_heads(callee)
    for pose in (*_POSES[:2], *(Pose(heads=heads) for heads in fixed), *_POSES[2:]):
        for each in _forms(callee, trier, pose):
            form = change(each) if change else each
            found = _found(form, trier) or _found_contiguous(form, trier)
            if found is not None and (not found.is_guess or _is_of_two_widths(found, trier)):
                alone = _of_heads(found, CROSS.H) if CROSS.H in fixed and _is_of_them_only(found, trier) else found
                return _whole(with_own_settled(alone, trier), callee, trier)
    return None


def _of_aspects(callee: Examined, trier: Trier) -> CallForm | None:
    """The form of a function with parameters of an aspect that finds out by itself how these are handed over; None
    where none is right.
    """
    for part in load_parts("search"):
        ways, until = part.parameters_of(callee), trier.tried + part.MOST_TRIES
        for known in ways:
            for pose in (Pose(), Pose(_WIDE, is_half=True)):
                paged = filter(None, (pose.of(form, trier) for form in paged_forms(known.callee, trier)))
                forms = itertools.chain(paged, _forms(known.callee, trier, pose))
                if found := part.find_form(forms, known, _found, trier, until):
                    return _whole(found, known.callee, trier)
        if ways:
            trier.nearest = None
            trier.mistaken.clear()
    return None


def _with_mistake(callee: Examined, trier: Trier) -> CallForm | None:
    """The form in which one plain mistake explains all numbers, and a warning that says which."""
    for form in trier.mistaken:
        if form.is_guess and not _is_of_two_widths(form, trier):
            continue
        says = MISTAKES[form.mistake].says
        warning = (f"WRONG: it is attention, but {says}. The adapter is written as if it were not so: attnspec check "
                   "judges it, and all else.")
        return _whole(replace(form, warnings=(warning, *form.warnings)), callee, trier)
    return None


_TWO_PAGES = 8
"""Keys that fill two of the pages in which a function is put its keys."""


def _with_full_pages(callee: Examined, trier: Trier) -> CallForm | None:
    """The form of a function that is right only where keys fill their pages, and a warning that says so."""
    nearest = trier.nearest
    for form in () if callee.is_class else paged_forms(callee, trier):
        if found := _found(replace(form, sizes={**form.sizes, "S": _TWO_PAGES}), trier):
            warning = ("WRONG: it is right only where all keys fill their pages: else it reads the rest of the last "
                       "page. attnspec check judges it, and all else.")
            return _whole(replace(found, warnings=(warning, *found.warnings)), callee, trier)
    trier.nearest = nearest
    return None


def _whole(form: CallForm, callee: Examined, trier: Trier) -> CallForm:
    """The form with its memory, all keywords and variants, and what is to be said of it."""
    parameters = parameters_of_all(callee)
    told = with_memory(form, callee.call if callee.is_class else callee.parameters, trier)
    known = with_unnamed(learned(told, parameters, trier), parameters, trier)
    turned = with_angles_handed(with_polarity(known, callee), parameters, trier)
    judged = with_modes(with_ragged(turned, trier), parameters, trier)
    return with_doubt(with_large_logits(judged, trier), callee, [*callee.parameters, *callee.constructor, *callee.call])


def _as_suggested(callee: Examined, trier: Trier) -> CallForm | None:
    """The form that is right once what its nearest answer suggests is done."""
    nearest, mistaken = trier.nearest, list(trier.mistaken)
    for suggestion in suggestions_of(callee, nearest):
        trier.nearest = None
        trier.mistaken.clear()
        seen = suggestion.callee
        found = _form_of(seen, trier, suggestion.change) or _with_mistake(seen, trier)
        if found is None and _is_further(trier.nearest, nearest):
            found = next(filter(None, (way(seen, trier) for way in (_without_rotation, _before_sum, _without_bias))),
                         None)
        if found is not None:
            return suggestion.told(found)
    trier.nearest, trier.mistaken[:] = nearest, mistaken
    return None


def _is_further(now: Attempt | None, before: Attempt | None) -> bool:
    """Whether it answers now, and did not before."""
    return now is not None and before is not None and before.step < now.step is Progress.OTHER_NUMBERS


def _without_rotation(callee: Examined, trier: Trier) -> CallForm | None:
    """The form with the rotation of its queries and keys switched off; None where that is not what it does
    otherwise.
    """
    nearest = trier.nearest
    if nearest is None or nearest.step is not Progress.OTHER_NUMBERS or not callee.is_class:
        return None
    known, mistaken = replace(nearest.form, reading=None), list(trier.mistaken)
    for switch in rotation_switches(known, parameters_of_all(callee), trier):
        trier.mistaken.clear()
        if found := _form_of(callee, trier, switch.off) or _with_mistake(callee, trier):
            return with_rotation_off(found, switch, trier)
    trier.nearest, trier.mistaken[:] = nearest, mistaken
    return None


def _before_sum(callee: Examined, trier: Trier) -> CallForm | None:
    """The form of a layer that adds its input, judged before that; None where it does not."""
    nearest = trier.nearest
    if nearest is None or nearest.step is not Progress.OTHER_NUMBERS or not output_projection(nearest.form):
        return None
    mistaken = list(trier.mistaken)
    trier.mistaken.clear()
    found = _form_of(callee, trier, judged_before_sum) or _with_mistake(callee, trier)
    trier.nearest, trier.mistaken[:] = nearest, mistaken
    return tell_sum(found) if found and found.judged and adds_its_input(found, trier) else None


def _without_bias(callee: Examined, trier: Trier) -> CallForm | None:
    """The nearest form without the bias by position that it adds of its own. Raises TargetError, which says what it
    adds, where that cannot be switched off; None where it adds none.
    """
    nearest = trier.nearest
    bias = measure_bias(nearest.form, trier) if nearest and nearest.step is Progress.OTHER_NUMBERS else None
    if nearest is None or bias is None:
        trier.nearest = nearest
        return None
    unread = replace(nearest.form, reading=None)
    for off, how in switch_off(unread, parameters_of_all(callee), trier):
        if found := _found(off, trier):
            said = (f"WITHOUT ITS BIAS: it adds {bias.words}. Its {how} in the adapter, so that everything else is "
                    "judged. With it, it was right in the one case that was tried.")
            whole = _whole(replace(found, warnings=(said, *found.warnings)), callee, trier)
            return _of_one_slope(whole) if bias.has_one_slope else whole
    raise TargetError(
        f"{callee.target} is attention ({described(nearest.form)}) with {bias.words}. attnspec would judge it with "
        "that switched off: keep it in a buffer of the module, let a flag switch it off, or let a parameter "
        "(`alibi_slopes`, or `bias`) hand it over, which is judged too.")


def _of_one_slope(form: CallForm) -> CallForm:
    """The form, and the doubt whether all heads are meant to have one slope."""
    warning = ("ONE SLOPE FOR ALL HEADS: where positions are told by slopes (ALiBi), each head has its own. Is that "
               "meant?")
    return replace(form, warnings=(warning, *form.warnings), demanded=(*form.demanded, "alibi_slopes"))


def _found_contiguous(form: CallForm, trier: Trier) -> CallForm | None:
    """With its arrays in plain order, where it has asked for that."""
    if not trier.asks_contiguous or form.lift != "torch" or form.is_class:
        return None
    return _found(replace(form, contiguous=True), trier)


def _is_of_them_only(form: CallForm, trier: Trier) -> bool:
    """Whether it is wrong with other heads than it was found with."""
    return not trier.is_right(form, plain(form, H=CROSS.H + 1, Hkv=CROSS.H + 1))


def _is_of_two_widths(form: CallForm, trier: Trier) -> bool:
    """Whether it is right, too, where it is made with another width, number of heads and width of a head."""
    return trier.is_right(form, plain(form, H=CROSS.H + 1, Hkv=CROSS.H + 1, D=_OTHER_WIDTH, Dv=_OTHER_WIDTH))


def _forms(callee: Examined, trier: Trier, pose: Pose) -> Iterator[CallForm]:
    if not pose.may_help(trier, is_class=callee.is_class):
        return iter(())
    if callee.is_class:
        forms = class_forms(callee, trier)
    else:
        forms = itertools.chain(tree_forms(callee, trier), packed_forms(callee, trier), function_forms(callee, trier),
                                paged_forms(callee, trier))
    return (posed for form in forms if (posed := pose.of(form, trier)) is not None)


def parameters_of_all(callee: Examined) -> Parameters:
    """Of its call, and of its constructor if it is a class."""
    if callee.is_class:
        return {At.CALL: callee.call, At.CONSTRUCTOR: callee.constructor}
    return {At.CALL: callee.parameters}


def _found(form: CallForm, trier: Trier) -> CallForm | None:
    """The form if it answers rightly, in whatever way the output is read; also with another scale, or always causal."""
    problem = plain(form)
    returned = trier.returned(form, problem)
    if returned is None:
        return None
    outputs = trier.outputs(form, returned, problem, next(truths(problem, "")).output.shape)
    for known in _variations(form):
        for output in _right_ones(known, outputs):
            candidate = replace(known, reading=output.reading)
            if trier.is_right(candidate, plain(candidate)):
                return candidate
    trier.keep_mistaken(form, problem, outputs)
    _keep_nearest(form, problem, outputs, trier)
    return None


def _variations(form: CallForm) -> Iterator[CallForm]:
    """The form as it is; with another default scale; always causal, at each of these scales."""
    always = replace(form, limits={**form.limits, "causal_only": True},
                     remarks=(*form.remarks, "It is always causal."))
    yield from (form, *_scaled_otherwise(form), always, *_scaled_otherwise(always))


_SCALED_IN_WEIGHTS = (": attnspec check convicts it. If its weights are drawn for that scale, as those of T5 are, "
                      "multiply `w_query` by what is missing, in the adapter.")


def _scaled_otherwise(form: CallForm) -> Iterator[CallForm]:
    """The form with each default scale that a library may have."""
    is_layer = form.kind is Kind.LAYER
    for name in SCALES:
        said = f"Its default scale is {name}, not 1/sqrt(D){_SCALED_IN_WEIGHTS if is_layer else '.'}"
        yield replace(form, default_scale=name, remarks=(*form.remarks, said))


def _right_ones(form: CallForm, outputs: list[Output]) -> Iterator[Output]:
    """The outputs that are right by one convention or another."""
    problem = plain(form)
    known = list(truths(problem, form.default_scale))
    for output in outputs:
        if any(truth.gap(output.array)[0] <= close(problem.dtype) for truth in known):
            yield output


def _keep_nearest(form: CallForm, problem: AnyProblem, outputs: list[Output], trier: Trier) -> None:
    """What is nearest to the definition as it is, with what would make it right."""
    truth = next(truths(problem, ""))
    for output in outputs:
        without_input = output.array - problem.query if output.array.shape == problem.query.shape else output.array
        adds_input = truth.gap(without_input)[0] <= close(problem.dtype)
        said = "; it adds its input (a residual), without which it would be right" if adds_input else ""
        if DESTINATION in form.given.values() and np.isnan(output.array).any():
            said = "; it was handed an array full of NaN to write into: it leaves some there, or adds to it"
        distance = 0.0 if adds_input else unlike(truth, output.array)
        trier.keep(Attempt(replace(form, reading=output.reading), Progress.OTHER_NUMBERS,
                           f"its output is {truth.gap(output.array)[1]}{said}", distance))


def _failure(callee: Examined, trier: Trier) -> str:
    """What was tried, the nearest of it, and what stood against that."""
    known = parameters_of_all(callee)
    if not any(known.values()):
        return (f"{callee.target} names no parameters, as a function that a decorator returns without "
                "@functools.wraps(function). Name them, in a wrapper if it is not yours.")
    unknown = [each.name for at, listed in known.items() for each in unknown_ones(listed, at)]
    said = f" What its {' and '.join(unknown)} means could not be found out, and it has no default." if unknown else ""
    return (f"{callee.target} does not compute attention in any of the {trier.tried} forms that were "
            f"tried.{_told(trier.nearest)}{said}{_fixed(callee)} "
            "Write its adapter by hand: docs/writing-an-adapter.md.")


def _told(nearest: Attempt | None) -> str:
    return "" if nearest is None else f" Nearest is {described(nearest.form)}; but {nearest.against}."


def _fixed(callee: Examined) -> str:
    """What to do about sizes that it takes from its module; empty where it takes none."""
    if not callee.numbers:
        return ""
    read = " and ".join(f"{name} = {number}" for name, number in callee.numbers.items())
    return (f" It reads {read} from its module, and it was tried with other sizes: if that is the number of heads or a "
            f"width, make it a parameter (`num_heads={next(iter(callee.numbers))}`).")
