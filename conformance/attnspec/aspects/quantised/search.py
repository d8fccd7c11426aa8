"""Functions that are handed codes and scales: in which format, and how many entries share a scale, found by trying.

First it is called without scales, or with scales of 1: then codes are numbers, and what is right tells how arrays lie
and in which formats codes are taken. Then each granularity is tried, in each shape that its scales may have.
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
"""The form with how its output is read, if it is right."""

_CODE_FORMATS = ("", "int8", "float8_e4m3fn", "float8_e5m2", "uint8", "int4", "uint4", "mxfp4",
                 "nvfp4")
"""What codes may be: in the dtype of the call, for who takes numbers, too; then the most frequent first. `mxfp8`
differs from `float8_e4m3fn` by its scales alone.
"""

_FORMATS_OF_SAME_CODES: Mapping[str, tuple[str, ...]] = {"float8_e4m3fn": ("float8_e4m3fn", "mxfp8"),
                                                         "mxfp4": ("mxfp4", "nvfp4")}
"""By format, those of the same codes."""

_WORDS_BY_FORMAT: Mapping[str, tuple[str, ...]] = {
    "float8_e4m3fn": ("float8", "fp8", "e4m3"), "float8_e5m2": ("e5m2",), "mxfp4": ("mxfp4", "mx_", "e8m0"),
    "nvfp4": ("nvfp4",), "int4": ("int4", "nibble"), "uint4": ("uint4", "nibble"), "uint8": ("uint8",),
    "int8": ("int8",)}
"""By format, what its author writes who means it."""

_ANY_STORAGE = "int8"
"""The storage of codes where a form takes any."""

_USUAL_VALUES = "head/odd"
"""By what scales differ, and what they are like, that a form is tried with where it takes any."""

_GRANULARITIES_IN_TURN = ("", "token", "channel", "batch_head", "head", "batch")
"""The granularities without blocks, the finest first, without `tensor`: who has a scale for each head may take one for
all, too.
"""

_ZERO_LIMITS: tuple[Mapping[str, str], ...] = ({"zeros": "codes"}, {})
"""The limits of who is handed zero points in the format of the codes, and as numbers."""

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
"""By granularity, how its scales are handed over, and their shape in words; any other has the shape of its own. None
has a first axis of 1 but that of one number: a function that reads the first head's scale alone would be right.
"""


@dataclass(frozen=True, slots=True)
class ScaleParameters:
    """The parameters of a function that are scales, zero points or second scales, by our keyword; and the function
    without them.
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
        """The same where queries are no codes, and their scale is left alone; None where there is none."""
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
    """In which ways its parameters may be read: with a scale of the query, and without; none of a function that has no
    scales.
    """
    told = find_scale_parameters(callee)
    return tuple(filter(None, (told, told.without_query))) if told else ()


def pose_problem(form: CallForm, problem: Problem) -> Problem:
    """The problem with codes and scales as the form takes them; as it is where it takes none."""
    patterns: dict[str, str] = {}
    any_shared, kind = (form.tried_values or _USUAL_VALUES).split("/")
    for word in _SCALE_WORDS:
        if form.parameter_for(word.name):
            stored = str(form.limits.get(f"stored_{word.meaning_of}", "")) or _ANY_STORAGE
            declared = str(form.limits.get(f"{word.meaning_of}_scales", ""))
            shared = declared or STORAGES[stored].usual_granularity or any_shared
            is_scale = word.name == f"{word.meaning_of}_scale"
            patterns[word.name] = f"{stored}/{shared}/{kind}" if is_scale else str(word.sample)
    return in_codes(problem, patterns, int(form.limits.get("page_multiple", 1))) if patterns else problem


def find_scale_parameters(callee: ExaminedCallable) -> ScaleParameters | None:
    """Those of a function that has scales for keys or for values; None for any other."""
    named = {word.name: found[0] for word in _SCALE_WORDS if (found := find_parameters(word.name, callee.parameters))}
    if callee.is_class or not {f"{array}_scale" for array in ("key", "value")} & named.keys():
        return None
    taken = {each.name for each in named.values()}
    rest = tuple(each for each in callee.parameters if each.name not in taken)
    return ScaleParameters(named, replace(callee, parameters=rest))


def find_form(forms: Iterable[CallForm], told: ScaleParameters, find: TryForm, trier: Trier,
              until: int) -> CallForm | None:
    """The first of these forms that is right with codes and scales; else the one that is right with scales of 1, with
    its nearest way of other scales, which a check then judges. until: how many calls may have been tried by then.
    """
    for form in forms:
        if trier.tried_count >= until:
            return None
        nearest: CallForm | None = None
        for known in _list_right_with_ones(form, told, find, trier, until):
            found, first_wrong = _find_scales(known, told, trier)
            if found:
                return _doubt_one_scale(_note_other_formats(found, told, trier), known, told,
                                        trier)
            nearest = nearest or _note_wrong_scales(first_wrong)
        if nearest:
            return nearest
    return None


def _note_wrong_scales(attempt: Attempt | None) -> CallForm | None:
    """The form whose answer was wrong, and what stands against it; None where none answered."""
    if attempt is None:
        return None
    said = [say_handed_on(each.parameter, each.keyword, attempt.objection, each.says) for each in attempt.form.bindings
            if each.keyword in OF_ENTRIES]
    return replace(attempt.form, tried_values="head/ones", remarks=(*attempt.form.remarks, *said))


MOST_TRIES = 2000
"""So many calls are made in search of a function's way with codes: some ten forms, and half a minute. One that is none
of these is most likely handed numbers, after all.
"""


def _list_right_with_ones(form: CallForm, told: ScaleParameters, find: TryForm, trier: Trier,
                          until: int) -> Iterator[CallForm]:
    """The form in each format of codes in which it is right where scales are 1 and there are no zero points."""
    for name in _list_formats(told):
        for layout in ("", *LAYOUTS) if name and STORAGES[name].is_nibble else ("",):
            stored = _use_format(form, told, name, layout)
            ways = _list_ways_with_ones(stored, told) if told.are_required else [_leave_scales(stored, told)]
            tried = (find(replace(way, tried_values="head/ones"), trier) for way in ways if trier.tried_count < until)
            found = next(filter(None, tried), None)
            if found is not None:
                limits = {name: each for name, each in found.limits.items() if name not in _SHARING_LIMITS}
                yield replace(found, bindings=form.bindings, tried_values=form.tried_values, limits=limits)
                break


def _list_formats(told: ScaleParameters) -> Sequence[str]:
    """The formats to be tried, those first that its source speaks of; those without a sign beside zero points only."""
    source = told.callee.source.lower()
    tried = [name for name in _CODE_FORMATS if not name or not STORAGES[name].is_unsigned or told.have_zeros]
    return sorted(tried,
                  key=lambda name: bool(name) and 1 + (not any(word in source for word in _WORDS_BY_FORMAT[name])))


def _use_format(form: CallForm, told: ScaleParameters, name: str, layout: str) -> CallForm:
    """The form with codes of a format in the place of the arrays that have scales."""
    limits: dict[str, bool | int | str] = {f"stored_{array}": name for array in told.arrays if name}
    limits |= {f"packed_{array}": layout for array in told.arrays if layout}
    return replace(form, limits={**form.limits, **limits})


def _leave_scales(form: CallForm, told: ScaleParameters) -> CallForm:
    """The form whose scales, which are 1, keep their defaults."""
    passed = tuple(Binding(f"{array}_scale", each.name, each.text or "None") for array in told.arrays
                   if (each := told.by_keyword[f"{array}_scale"]))
    left = {each.name: each.text for each in told.by_keyword.values() if not each.is_required}
    return replace(form, bindings=(*form.bindings, *passed),
                   left_defaults={**form.left_defaults, **left})


def _list_ways(form: CallForm, told: ScaleParameters) -> Iterator[CallForm]:
    """The form with scales of each granularity: each in its own shape, and then in others, one scale for all last."""
    own = STORAGES[_find_format(form, told) or "int8"]  # in the dtype of the call, codes are shared as any others
    alike = [*(_GRANULARITIES_IN_TURN if not own.block else ()),
             *(PAGED_GRANULARITIES if form.parameter_for(TABLE) and not own.block else ()),
             *(name for name in own.granularities if name not in UNBLOCKED)]
    shared = [dict.fromkeys(told.arrays, each) for each in alike]
    if {"key", "value"} <= {*told.arrays} and not own.block:
        shared += [{**dict.fromkeys(told.arrays, value), "key": key} for key, value in _MIXED_GRANULARITIES]
    for others in (False, True):
        for each in shared:
            yield from _list_scale_shapes(form, told, each, others=others)
    if not own.block:
        yield from _list_scale_shapes(form, told, dict.fromkeys(told.arrays, "tensor"))
        yield from _list_scale_shapes(form, told, dict.fromkeys(told.arrays, "tensor"),
                                      others=True)


def _list_ways_with_ones(form: CallForm, told: ScaleParameters) -> Iterator[CallForm]:
    """The form with scales of each shape that they may have; blocks of all lengths have the same one here."""
    longer = [f"({length})" for length in BLOCKS if length != BLOCKS[0]]
    own = STORAGES.get(_find_format(form, told))
    yield from (way for way in _list_ways(form, told) if (own is not None and own.block)
                or not any(str(each).endswith(tuple(longer)) for each in way.limits.values()))


def _find_format(form: CallForm, told: ScaleParameters) -> str:
    """The format of its codes; empty where they come in the dtype of the call."""
    return str(form.limits.get(f"stored_{told.arrays[0]}", ""))


def _list_scale_shapes(form: CallForm, told: ScaleParameters, shared: Mapping[str, str], *,
                       others: bool = False) -> Iterator[CallForm]:
    """The form with scales of these granularities, by array, in their own shapes, or in the others, chosen alike."""
    shapes = {array: _SCALE_SHAPES.get(each, (("{0}", GRANULARITIES.get(each) or PAGED_GRANULARITIES.get(each, "")),))
              for array, each in shared.items()}
    limits = {f"{array}_scales": each for array, each in shared.items() if each}
    for at in range(1, max(len(each) for each in shapes.values())) if others else (0,):
        chosen = {array: each[min(at, len(each) - 1)] for array, each in shapes.items()}
        passed = tuple(Binding(word.name, told.by_keyword[word.name].name, chosen[word.meaning_of][0].format(word.name),
                               _describe_shape(word.meaning_of, chosen[word.meaning_of][1]))
                       for word in _SCALE_WORDS if word.name in told.by_keyword and word.meaning_of in chosen)
        for zeros in _ZERO_LIMITS if told.have_zeros else ({},):
            posed = replace(form, bindings=(*form.bindings, *passed),
                            limits={**form.limits, **limits, **zeros})
            yield replace(posed, left_defaults={**form.left_defaults, **_list_unsaid_values(posed, told)})


def _describe_shape(array: str, shape: str) -> str:
    """A shape in words, of a query with its own axes."""
    return shape.replace("Hkv", "H").replace("S", "T") if array == "query" else shape


def _list_unsaid_values(form: CallForm, told: ScaleParameters) -> Mapping[str, str]:
    """What the parameters are given where nobody says anything: their defaults; 0 where a call wants zero points."""
    left = {each.name: each.text for each in told.by_keyword.values() if not each.is_required}
    for array in told.arrays:
        zero, numbers = told.by_keyword.get(f"{array}_zero"), TEMPLATES[form.lift].number_mask
        if zero is not None and zero.is_required:
            made = f"{array}_scale * 0"
            in_codes = numbers.format(f"({made})").replace("query.dtype", f"{array}.dtype")
            left[zero.name] = in_codes if form.limits.get("zeros") == "codes" else made
    return left


def _find_scales(known: CallForm, told: ScaleParameters, trier: Trier) -> tuple[CallForm | None, Attempt | None]:
    """The form with scales of the first granularity that is right, also where several blocks of each length have their
    own, if it takes such lengths; and the first that answers, and wrongly.
    """
    wrong: Attempt | None = None
    long = {axis: length for axis, length in _LONG_SIZES.items() if axis not in known.sizes}
    ones = replace(_leave_scales(known, told), tried_values="head/ones")
    takes_long = told.are_required or trier.is_right(ones, plain_problem(ones, **long))
    lengths = ({}, long) if takes_long else ({},)
    for name in _FORMATS_OF_SAME_CODES.get(_find_format(known, told), ("",)):
        form = _use_format(known, told, name, "") if name else known
        for way in _list_ways(form, told):
            wrongs = (trier.find_wrong(posed, plain_problem(posed, **each)) for posed in _list_posed(way)
                      for each in lengths)
            attempt = next(filter(None, wrongs), None)
            if attempt is None:
                return way, wrong
            if wrong is None and attempt.progress is Progress.OTHER_NUMBERS:
                wrong = attempt
    return None, wrong


def _list_posed(form: CallForm) -> Iterator[CallForm]:
    """The form with the scales that it is tried with: where it takes any granularity, of some that differ along each
    axis.
    """
    different = ("head",) if _SHARING_LIMITS & form.limits.keys() else ("head", "token", "channel")
    yield from (replace(form, tried_values=f"{shared}/odd") for shared in different)


def _doubt_one_scale(form: CallForm, known: CallForm, told: ScaleParameters,
                     trier: Trier) -> CallForm:
    """The form, and the doubt whether one scale is meant where it is handed one for each head without complaint."""
    if any(form.limits.get(f"{array}_scales") != "tensor" for array in told.arrays):
        return form
    of_heads = next(_list_scale_shapes(known, told, dict.fromkeys(told.arrays, "head")))
    if trier.answer(of_heads, plain_problem(of_heads)) is None:
        return form
    names = " and ".join(each.parameter for each in form.bindings if each.keyword in OF_ENTRIES)
    warning = (f"ONE SCALE FOR ALL HEADS: it takes {names} (Hkv,), too, and reads the same for all. If each head has "
               "its own, write `head` for `tensor` in the manifest and hand them on whole: then attnspec check says "
               "what is wrong.")
    return form.with_warning(warning)


def _note_other_formats(form: CallForm, told: ScaleParameters, trier: Trier) -> CallForm:
    """The form, and which other formats it takes: one is declared, and judged."""
    name = _find_format(form, told)
    if (name and STORAGES[name].block) or form.limits.get(f"packed_{told.arrays[0]}"):
        return form
    others = [other for other in _list_formats(told) if other not in ("", name) and not STORAGES[other].block
              and trier.is_right(_use_format(form, told, other, ""), plain_problem(_use_format(form, told, other, "")))]
    how = f"The manifest declares {name}" if name else "The manifest declares none of these: codes come as numbers"
    taken = f"Its codes are {name or 'numbers'}; it takes {', '.join(others)}, too."
    said = [f"{taken} {how}. Write another one there (`stored_key`) to have that judged."] if others else []
    return form.with_remarks(*said)
