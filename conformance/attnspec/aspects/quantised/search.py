"""The search tries in which format a function takes codes, and how many entries share a scale.

First the function is called without scales, or with scales of 1: then codes are numbers, and what
is right tells how arrays lie and in which formats codes are taken. Then each granularity is tried,
in each shape of its scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attnspec.aspects.quantised.arrays import in_codes
from attnspec.aspects.quantised.storage import BLOCKS, GRANULARITIES, LAYOUTS, PAGED_GRANULARITIES, STORAGES, UNBLOCKED
from attnspec.core.forms import OF_ENTRIES, TABLE
from attnspec.core.keywords import KEYWORDS
from attnspec.problems.problem import Problem
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import TEMPLATES, Binding, CallForm
from attnspec.scaffold.lookup import TheirParameter, find_parameters
from attnspec.scaffold.probe_problems import plain_problem
from attnspec.scaffold.trial_adapter import Attempt, Progress, Trier
from attnspec.scaffold.writing.telling import say_handed_on

TryForm = Callable[[CallForm, Trier], CallForm | None]
"""Returns the form with how its output is read, if it is right."""

_CODE_FORMATS = ("", "int8", "float8_e4m3fn", "float8_e5m2", "uint8", "int4", "uint4", "mxfp4", "nvfp4")
"""The formats of codes in the order in which they are tried; the empty one is the dtype of the
call. `mxfp8` differs from `float8_e4m3fn` by its scales alone.
"""

_FORMATS_OF_SAME_CODES: Mapping[str, tuple[str, ...]] = {"float8_e4m3fn": ("float8_e4m3fn", "mxfp8"),
                                                         "mxfp4": ("mxfp4", "nvfp4")}
"""By format, all formats that have the same codes."""

_WORDS_BY_FORMAT: Mapping[str, tuple[str, ...]] = {
    "float8_e4m3fn": ("float8", "fp8", "e4m3"), "float8_e5m2": ("e5m2",), "mxfp4": ("mxfp4", "mx_", "e8m0"),
    "nvfp4": ("nvfp4",), "int4": ("int4", "nibble"), "uint4": ("uint4", "nibble"), "uint8": ("uint8",),
    "int8": ("int8",)}
"""By format, the words by which a source speaks of it."""

_ANY_STORAGE = "int8"
"""The storage of codes where a form takes any."""

_USUAL_VALUES = "head/odd"
"""The granularity and kind of the scales that a form is tried with where it takes any."""

_GRANULARITIES_IN_TURN = ("", "token", "channel", "batch_head", "head", "batch")
"""The granularities without blocks, the finest first. `tensor` is left out: a function that takes
a scale for each head may take one for all, too.
"""

_ZERO_LIMITS: tuple[Mapping[str, str], ...] = ({"zeros": "codes"}, {})
"""The limits of functions that take zero points in the format of the codes, and as numbers."""

_MIXED_GRANULARITIES = (("channel", "token"), ("channel", "head"), ("channel", "batch_head"),
                        ("head", "channel"))
"""Granularities of keys and of values, where these are not alike."""

_SCALE_WORDS = tuple(word for word in KEYWORDS.values() if word.name in OF_ENTRIES)

_SHARING_LIMITS = frozenset({*(f"{array}_scales" for array in ("query", "key", "value")), "zeros"})
"""The limits that say how scales are shared, and what zero points are."""

_LONG_SIZES: Mapping[str, int] = {"B": 3, "H": 2, "Hkv": 2, "T": 3, "S": 160, "D": 160, "Dv": 160}
"""Lengths that hold several blocks of every length, and a last one that is not full."""

_SCALE_SHAPES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (("{0}", "of four axes, which broadcasts to its array"),),
    "tensor": (("{0}", "one number, ()"), ("{0}.reshape(1)", "one number, (1,)"), ("float({0})", "one number")),
    "batch": (("{0}", "(B,)"),),
    "head": (("{0}", "(Hkv,)"),),
    "batch_head": (("{0}", "(B,Hkv)"), ("{0}[:, :, None, None]", "(B,Hkv,1,1)")),
    "token": (("{0}", "(B,Hkv,S)"), ("{0}[..., None]", "(B,Hkv,S,1)"), ("{0}.swapaxes(1, 2)", "(B,S,Hkv)"),
              ("{0}.swapaxes(1, 2)[..., None]", "(B,S,Hkv,1)")),
    "channel": (("{0}", "(Hkv,D)"),),
}
"""By granularity, how its scales are handed over, and their shape in words; any other has its own
shape alone. None has a first axis of 1 but that of one number: a function that reads the first
head's scale alone would be right.
"""


@dataclass(frozen=True, slots=True)
class ScaleParameters:
    """The parameters of a function that are scales, zero points or second scales, by our keyword,
    and the function without them.
    """

    by_keyword: Mapping[str, TheirParameter]
    callee: ExaminedCallable

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that have a scale of their own."""
        return tuple(word.meaning_of for word in _SCALE_WORDS
                     if word.name in self.by_keyword and word.name == f"{word.meaning_of}_scale")

    @property
    def without_query(self) -> ScaleParameters | None:
        """The same without the scale of the query; None where it has none."""
        rest = {name: each for name, each in self.by_keyword.items() if not name.startswith("query_")}
        return ScaleParameters(rest, self.callee) if rest.keys() < self.by_keyword.keys() else None

    @property
    def are_required(self) -> bool:
        """Whether a call without some of them fails."""
        return any(each.is_required for each in self.by_keyword.values())

    @property
    def have_zeros(self) -> bool:
        """Whether there are zero points."""
        return any(name.endswith("_zero") for name in self.by_keyword)


def parameters_of(callee: ExaminedCallable) -> tuple[ScaleParameters, ...]:
    """Return the ways to read its parameters: with a scale of the query, and without."""
    scale_parameters = find_scale_parameters(callee)
    if scale_parameters is None:
        return ()
    rest = scale_parameters.without_query
    return (scale_parameters,) if rest is None else (scale_parameters, rest)


def pose_problem(form: CallForm, problem: Problem) -> Problem:
    """Give a problem codes and scales as the form takes them, if it takes any."""
    patterns: dict[str, str] = {}
    usual, kind = (form.tried_values or _USUAL_VALUES).split("/")
    for word in _SCALE_WORDS:
        if not form.parameter_for(word.name):
            continue
        patterns[word.name] = str(word.sample)
        if word.name == f"{word.meaning_of}_scale":
            stored = str(form.limits.get(f"stored_{word.meaning_of}", "")) or _ANY_STORAGE
            declared = str(form.limits.get(f"{word.meaning_of}_scales", ""))
            granularity = declared or STORAGES[stored].usual_granularity or usual
            patterns[word.name] = f"{stored}/{granularity}/{kind}"
    return in_codes(problem, patterns, int(form.limits.get("page_multiple", 1))) if patterns else problem


def find_scale_parameters(callee: ExaminedCallable) -> ScaleParameters | None:
    """Find the scale parameters of a function that has scales for keys or for values."""
    by_keyword = {}
    for word in _SCALE_WORDS:
        if parameters := find_parameters(word.name, callee.parameters):
            by_keyword[word.name] = parameters[0]
    if callee.is_class or by_keyword.keys().isdisjoint({"key_scale", "value_scale"}):
        return None
    names = {each.name for each in by_keyword.values()}
    rest = tuple(each for each in callee.parameters if each.name not in names)
    return ScaleParameters(by_keyword, replace(callee, parameters=rest))


def find_form(forms: Iterable[CallForm], scales: ScaleParameters, find: TryForm, trier: Trier,
              until: int) -> CallForm | None:
    """Return the first of these forms that is right with codes and scales. If there is none,
    return one that is right with scales of 1 and nearly with others, which a check then judges.

    until: how many calls may have been tried by then.
    """
    for form in forms:
        if trier.tried_count >= until:
            return None
        nearest: CallForm | None = None
        for known in _list_right_with_ones(form, scales, find, trier, until):
            right, first_wrong = _find_scales(known, scales, trier)
            if right:
                return _doubt_one_scale(_note_other_formats(right, scales, trier), known, scales, trier)
            nearest = nearest or _note_wrong_scales(first_wrong)
        if nearest:
            return nearest
    return None


def _note_wrong_scales(attempt: Attempt | None) -> CallForm | None:
    """The form whose answer was wrong, and what stands against it; None where none answered."""
    if attempt is None:
        return None
    remarks = (say_handed_on(each.parameter, each.keyword, attempt.objection, each.says)
               for each in attempt.form.bindings if each.keyword in OF_ENTRIES)
    return replace(attempt.form, tried_values="head/ones").with_remarks(*remarks)


MOST_TRIES = 2000
"""The most calls that one search makes: some ten forms, and half a minute. A function that has
none of these forms is most likely handed numbers, after all.
"""


def _list_right_with_ones(form: CallForm, scales: ScaleParameters, find: TryForm, trier: Trier,
                          until: int) -> Iterator[CallForm]:
    """The form in each format in which it is right with scales of 1 and no zero points."""
    for name in _list_formats(scales):
        for layout in ("", *LAYOUTS) if name and STORAGES[name].is_nibble else ("",):
            stored = _use_format(form, scales, name, layout)
            ways = _list_ways_with_ones(stored, scales) if scales.are_required else [_leave_scales(stored, scales)]
            tried = (find(replace(way, tried_values="head/ones"), trier) for way in ways if trier.tried_count < until)
            right = next(filter(None, tried), None)
            if right is not None:
                limits = {limit: each for limit, each in right.limits.items() if limit not in _SHARING_LIMITS}
                yield replace(right, bindings=form.bindings, tried_values=form.tried_values, limits=limits)
                break


def _list_formats(scales: ScaleParameters) -> Sequence[str]:
    """The formats to be tried: the dtype of the call, then those that the source speaks of."""
    source = scales.callee.source.lower()

    def place(name: str) -> int:
        if not name:
            return 0
        return 1 if any(word in source for word in _WORDS_BY_FORMAT[name]) else 2

    tried = (name for name in _CODE_FORMATS if scales.have_zeros or not name or not STORAGES[name].is_unsigned)
    return sorted(tried, key=place)


def _use_format(form: CallForm, scales: ScaleParameters, name: str, layout: str) -> CallForm:
    """The form with codes of a format in the place of the arrays that have scales."""
    limits: dict[str, bool | int | str] = {f"stored_{array}": name for array in scales.arrays if name}
    limits |= {f"packed_{array}": layout for array in scales.arrays if layout}
    return replace(form, limits={**form.limits, **limits})


def _leave_scales(form: CallForm, scales: ScaleParameters) -> CallForm:
    """The form whose scales, which are 1, keep their defaults."""
    bindings = list(form.bindings)
    for array in scales.arrays:
        scale = scales.by_keyword[f"{array}_scale"]
        bindings.append(Binding(f"{array}_scale", scale.name, scale.text or "None"))
    defaults = {**form.left_defaults, **_list_defaults(scales)}
    return replace(form, bindings=tuple(bindings), left_defaults=defaults)


def _list_defaults(scales: ScaleParameters) -> dict[str, str]:
    """The defaults of the parameters that have one, by name."""
    return {each.name: each.text for each in scales.by_keyword.values() if not each.is_required}


def _list_ways(form: CallForm, scales: ScaleParameters) -> Iterator[CallForm]:
    """The form with scales of each granularity, in its own shape, then in others; one for all last."""
    storage = STORAGES[_find_format(form, scales) or "int8"]  # in the dtype of the call, codes are shared as any others
    granularities = [name for name in storage.granularities if name not in UNBLOCKED]
    if not storage.block:
        paged = PAGED_GRANULARITIES if form.parameter_for(TABLE) else ()
        granularities = [*_GRANULARITIES_IN_TURN, *paged, *granularities]
    shared = [dict.fromkeys(scales.arrays, each) for each in granularities]
    if {"key", "value"} <= {*scales.arrays} and not storage.block:
        shared += [{**dict.fromkeys(scales.arrays, value), "key": key} for key, value in _MIXED_GRANULARITIES]
    for others in (False, True):
        for each in shared:
            yield from _list_scale_shapes(form, scales, each, others=others)
    if not storage.block:
        for others in (False, True):
            yield from _list_scale_shapes(form, scales, dict.fromkeys(scales.arrays, "tensor"), others=others)


def _list_ways_with_ones(form: CallForm, scales: ScaleParameters) -> Iterator[CallForm]:
    """The form with scales of each shape, of which blocks of all lengths share one here."""
    longer = tuple(f"({length})" for length in BLOCKS if length != BLOCKS[0])
    storage = STORAGES.get(_find_format(form, scales))
    has_one_length = storage is not None and storage.block
    for way in _list_ways(form, scales):
        if has_one_length or not any(str(each).endswith(longer) for each in way.limits.values()):
            yield way


def _find_format(form: CallForm, scales: ScaleParameters) -> str:
    """The format of its codes; empty where they come in the dtype of the call."""
    return str(form.limits.get(f"stored_{scales.arrays[0]}", ""))


def _list_scale_shapes(form: CallForm, scales: ScaleParameters, shared: Mapping[str, str], *,
                       others: bool = False) -> Iterator[CallForm]:
    """The form with scales of these granularities, by array, in their own shapes or in others."""
    shapes = {array: _list_shapes(each) for array, each in shared.items()}
    limits = {f"{array}_scales": each for array, each in shared.items() if each}
    for place in range(1, max(len(each) for each in shapes.values())) if others else (0,):
        bindings = list(form.bindings)
        for word in _SCALE_WORDS:
            array = word.meaning_of
            if word.name in scales.by_keyword and array in shapes:
                expression, shape = shapes[array][min(place, len(shapes[array]) - 1)]
                bindings.append(Binding(word.name, scales.by_keyword[word.name].name, expression.format(word.name),
                                        _describe_shape(array, shape)))
        for zeros in _ZERO_LIMITS if scales.have_zeros else ({},):
            posed = replace(form, bindings=tuple(bindings), limits={**form.limits, **limits, **zeros})
            yield replace(posed, left_defaults={**form.left_defaults, **_list_unsaid_values(posed, scales)})


def _list_shapes(granularity: str) -> tuple[tuple[str, str], ...]:
    """How scales of a granularity may be handed over, and their shapes in words, its own first."""
    own = GRANULARITIES.get(granularity) or PAGED_GRANULARITIES.get(granularity, "")
    return _SCALE_SHAPES.get(granularity, (("{0}", own),))


def _describe_shape(array: str, shape: str) -> str:
    """A shape in words, of a query with its own axes."""
    return shape.replace("Hkv", "H").replace("S", "T") if array == "query" else shape


def _list_unsaid_values(form: CallForm, scales: ScaleParameters) -> Mapping[str, str]:
    """The values of parameters of which nobody says anything: defaults, or 0 for zero points."""
    values = _list_defaults(scales)
    for array in scales.arrays:
        zero = scales.by_keyword.get(f"{array}_zero")
        if zero is not None and zero.is_required:
            value = f"{array}_scale * 0"
            if form.limits.get("zeros") == "codes":
                cast = TEMPLATES[form.lift].number_mask.replace("query.dtype", f"{array}.dtype")
                value = cast.format(f"({value})")
            values[zero.name] = value
    return values


def _find_scales(known: CallForm, scales: ScaleParameters, trier: Trier) -> tuple[CallForm | None, Attempt | None]:
    """The form with scales of the first granularity that is right, and the first wrong answer.
    Several blocks of each length have their own scales, if the function takes such lengths.
    """
    first_wrong: Attempt | None = None
    long = {axis: length for axis, length in _LONG_SIZES.items() if axis not in known.sizes}
    ones = replace(_leave_scales(known, scales), tried_values="head/ones")
    takes_long = scales.are_required or trier.is_right(ones, plain_problem(ones, **long))
    sizes = ({}, long) if takes_long else ({},)
    for name in _FORMATS_OF_SAME_CODES.get(_find_format(known, scales), ("",)):
        form = _use_format(known, scales, name, "") if name else known
        for way in _list_ways(form, scales):
            tried = (trier.find_wrong(posed, plain_problem(posed, **each)) for posed in _list_posed(way)
                     for each in sizes)
            wrong = next(filter(None, tried), None)
            if wrong is None:
                return way, first_wrong
            if first_wrong is None and wrong.progress is Progress.OTHER_NUMBERS:
                first_wrong = wrong
    return None, first_wrong


def _list_posed(form: CallForm) -> Iterator[CallForm]:
    """The form with each kind of scales that it is tried with: they differ along each axis."""
    granularities = ("head",) if _SHARING_LIMITS & form.limits.keys() else ("head", "token", "channel")
    yield from (replace(form, tried_values=f"{granularity}/odd") for granularity in granularities)


def _doubt_one_scale(form: CallForm, known: CallForm, scales: ScaleParameters, trier: Trier) -> CallForm:
    """The form, with a doubt if it has one scale and takes one for each head as well."""
    if any(form.limits.get(f"{array}_scales") != "tensor" for array in scales.arrays):
        return form
    of_heads = next(_list_scale_shapes(known, scales, dict.fromkeys(scales.arrays, "head")))
    if trier.answer(of_heads, plain_problem(of_heads)) is None:
        return form
    names = " and ".join(each.parameter for each in form.bindings if each.keyword in OF_ENTRIES)
    warning = (f"ONE SCALE FOR ALL HEADS: it takes {names} (Hkv,), too, and reads the same for all. If each head has "
               "its own, write `head` for `tensor` in the manifest and hand them on whole: then attnspec check says "
               "what is wrong.")
    return form.with_warning(warning)


def _note_other_formats(form: CallForm, scales: ScaleParameters, trier: Trier) -> CallForm:
    """The form, and which other formats it takes: one is declared, and judged."""
    name = _find_format(form, scales)
    if (name and STORAGES[name].block) or form.limits.get(f"packed_{scales.arrays[0]}"):
        return form
    others = []
    for other in _list_formats(scales):
        if other not in ("", name) and not STORAGES[other].block:
            stored = _use_format(form, scales, other, "")
            if trier.is_right(stored, plain_problem(stored)):
                others.append(other)
    if not others:
        return form
    how = f"The manifest declares {name}" if name else "The manifest declares none of these: codes come as numbers"
    taken = f"Its codes are {name or 'numbers'}; it takes {', '.join(others)}, too."
    return form.with_remarks(f"{taken} {how}. Write another one there (`stored_key`) to have that judged.")
