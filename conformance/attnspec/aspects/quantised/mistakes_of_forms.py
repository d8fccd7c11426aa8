"""These faults read the scales of packed, paged or cached codes from elsewhere.

Each fault changes the scales as they lie in its form; then codes are dequantised, and a right
function of the form follows. So a fault is as wrong as its scales are, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnspec.aspects.quantised.arrays import EVERY
from attnspec.aspects.quantised.mistakes_beside import PAST_CHANGES, ZERO_CHANGES, ScaleChange
from attnspec.core.forms import BORDERS, CACHE, OF_ENTRIES, TABLE, InputForm
from attnspec.faults.fault import Fault
from attnspec.faults.packed import packed_attention
from attnspec.faults.staged import (
    Attend,
    FindSlots,
    PageSlots,
    PageTable,
    around,
    attention,
    gather,
    gather_from,
    slots_of_keys,
)
from attnspec.faults.staged_forms import decoder, store_changed, whole_array, with_entries_read
from attnspec.faults.staged_work import HandedOver
from attnspec.problems.problem import CACHED_INPUTS, Array

PackedChange = Callable[[Array, Array, Array], Array]
"""Other scales (S,Hkv,D), made from those of packed keys and the borders (B+1,) of both."""


def _make_packed(keyword: str, change: PackedChange) -> Callable[[], Attend]:
    """A maker of packed functions that read other scales, or zero points, of keys or values."""
    def make() -> Attend:
        inner = with_entries_read(packed_attention()())

        def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
            """Query (T,H,D), key (S,Hkv,D) and value (S,Hkv,Dv) give the output (T,H,Dv)."""
            whole = whole_array(keywords, keyword, {"key": key, "value": value}[EVERY[keyword]])
            if whole is None or not whole.size:
                return inner(query, key, value, **keywords)
            changed = change(whole, *(keywords[name] for name in BORDERS))
            return inner(query, key, value, **{**keywords, keyword: changed})
        return attend
    return make


def _places(borders: Array) -> tuple[Array, Array]:
    """(N,) twice, of borders (B+1,): each token's sequence, and the first place of that."""
    number = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    return number, borders[:-1][number]


def _without_offset(scale: Array, _: Array, of_keys: Array) -> Array:
    """(S,Hkv,D): each sequence reads scales from the first of all on."""
    return scale[np.arange(len(scale)) - _places(of_keys)[1]]


def _by_borders_of_queries(scale: Array, of_queries: Array, of_keys: Array) -> Array:
    """(S,Hkv,D): scales are looked up where the sequence's queries begin."""
    number, first = _places(of_keys)
    return scale[np.minimum(np.arange(len(scale)) - first + of_queries[:-1][number], len(scale) - 1)]


def _of_first_token(scale: Array, _: Array, of_keys: Array) -> Array:
    """(S,Hkv,D): the scale of its first token serves all of a sequence."""
    return scale[_places(of_keys)[1]]


def _of_first_sequence(scale: Array, _: Array, of_keys: Array) -> Array:  # noqa: ARG001  (the same parameters for all)
    """(S,Hkv,D): the scale of the first token serves all sequences."""
    return np.broadcast_to(scale[:1], scale.shape)


def _one_token_on(scale: Array, _: Array, of_keys: Array) -> Array:  # noqa: ARG001  (the same parameters for all)
    """(S,Hkv,D): each token has the scale of the next."""
    return np.roll(scale, -1, axis=0)


_TWO = "{} scales by token or batch entry, two sequences and more"
_PACKED: Mapping[str, tuple[str, str, PackedChange]] = {
    "without_offset": ("Each sequence reads its {} scales from the first token of all on.", _TWO, _without_offset),
    "by_query_borders": ("The {} scales of a sequence are looked up where its queries begin.",
                         "{} scales by token, sequences whose queries are not as many as their keys",
                         _by_borders_of_queries),
    "of_first_token": ("The {} scale of its first token serves a whole sequence.", "{} scales by token",
                       _of_first_token),
    "of_first_sequence": ("The {} scale of the first sequence serves all.", _TWO, _of_first_sequence),
    "one_token_on": ("Each token has the {} scale of the next.", "{} scales by token", _one_token_on),
}
"""By name: story, reach, and what becomes of the scales of packed sequences; {} is the array."""


def _make_paged(keyword: str, find: FindSlots) -> Callable[[], Attend]:
    """A maker of functions that look scales or zero points up in other pages than codes."""
    look = gather_from(find)

    def answer(call: HandedOver) -> Any:  # noqa: ANN401  (a call's)
        if getattr(call, TABLE) is None:
            return attention(call)
        side_by_side = gather(call)
        for name, pool in _whole_meanings(call).items():
            if pool is not None:
                gather_scales = look if name == keyword else gather
                side_by_side = side_by_side.but(**{name: gather_scales(call.but(key=pool, value=pool)).key})
        return attention(side_by_side)
    return around(answer)


def _whole_meanings(call: HandedOver) -> Mapping[str, Array | None]:
    """By keyword, scales and zero points of keys and values in their shape (B,Hkv,S,·)."""
    return {keyword: whole_array(call.given, keyword, getattr(call, array)) for keyword, array in EVERY.items()
            if array in CACHED_INPUTS}


def _pages_by(change: Callable[[PageTable], Array]) -> FindSlots:
    """Scales lie by another table, any shape, modulo the pages that there are."""
    return lambda table: slots_of_keys(replace(table, pages=change(table) % table.most))


def _slots_by(change: Callable[[Array, int], Array]) -> FindSlots:
    """Scales lie in the right page, in other slots (B,S) of so many."""
    def find(table: PageTable) -> PageSlots:
        pages, slots = slots_of_keys(table)
        return pages, change(slots, table.slots)
    return find


def _late_border(table: PageTable) -> PageSlots:
    """The scale of the first key of a page is looked for in the page before it."""
    pages, slots = slots_of_keys(table)
    columns = np.maximum(table.places - 1, 0) // table.slots
    return np.where(table.places < table.lengths[:, None], table.pages[:, columns], pages), slots


_PAGED: Mapping[str, tuple[str, str, FindSlots]] = {
    "stay_behind": ("A page is given to an entry, and its {} scale stays where pages would lie in order.",
                    "{} scales by token or page, pages that do not lie in order",
                    _pages_by(lambda table: np.arange(table.pages.size).reshape(table.pages.shape))),
    "of_next_page": ("Each page has the {} scale of the next one of the pool.", "{} scales by token or page",
                     _pages_by(lambda table: table.pages + 1)),
    "of_first_page": ("The {} scale of an entry's first page serves all of its pages.",
                      "{} scales by token or page, several pages for an entry",
                      _pages_by(lambda table: np.repeat(table.pages[:, :1], table.pages.shape[1], axis=1))),
    "of_next_entry": ("Each batch entry has the {} scales of the next one's pages.",
                      "{} scales by token or page, B > 1",
                      _pages_by(lambda table: np.roll(table.pages, -1, axis=0))),
    "of_first_slot": ("The {} scale of its first slot serves a page.", "{} scales by token, pages of several slots",
                      _slots_by(lambda slots, _: np.zeros_like(slots))),
    "of_slot_before": ("Each slot has the {} scale of the one before it in the page.",
                       "{} scales by token, pages of several slots",
                       _slots_by(lambda slots, count: (slots - 1) % count)),
    "late_at_border": ("The {} scale of the first key of a page is looked for in the page before.",
                       "{} scales by token or page, several pages for an entry", _late_border),
}
"""By name: story, reach, and where the scales of keys in pages are looked for; {} is the array."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedCodes:
    """Codes (B,Hkv,P,·) of earlier calls by array, and by keyword their scales and zero points, of
    the same shape; None where no call had any.
    """

    codes: Mapping[str, Array]
    meanings: Mapping[str, Array | None]

    @property
    def count(self) -> int:
        """The number P of cached tokens."""
        return int(self.codes["key"].shape[2])


def coded_decoder(changes: Mapping[str, ScaleChange]) -> Callable[[], Attend]:
    """A maker of decoders that cache codes and scales side by side. Behind a cache they read what
    a change makes of the scales (B,Hkv,S,·) of its keyword.
    """
    def answer(call: HandedOver) -> Any:  # noqa: ANN401  (a cache is among it)
        held, step = getattr(call, CACHE), call.but(**{CACHE: None})
        cache = _cache_codes(held, step)
        read = {keyword: scale for keyword, scale in cache.meanings.items() if scale is not None}
        if held is not None:
            for keyword in changes.keys() & read.keys():
                read[keyword] = changes[keyword](read[keyword], held.count)
            step = step.but(**{f"past_{name}": codes for name, codes in held.codes.items()})
        output = attention(step.but(**read))
        return (*output, cache) if isinstance(output, tuple) else (output, cache)
    return around(answer)


def _cache_codes(held: CachedCodes | None, call: HandedOver) -> CachedCodes:
    """The codes and scales of a call behind those that are held."""
    new, meanings = {name: getattr(call, name) for name in CACHED_INPUTS}, _whole_meanings(call)
    if held is None:
        return CachedCodes(new, meanings)
    return CachedCodes({name: np.concatenate([held.codes[name], codes], axis=2) for name, codes in new.items()},
                       {keyword: _side_by_side(held, keyword, scale, new[EVERY[keyword]])
                        for keyword, scale in meanings.items()})


def _side_by_side(held: CachedCodes, keyword: str, new: Array | None, codes: Array) -> Array | None:
    """Scales or zero points (B,Hkv,S,D) of held and new codes, neutral where one lacks them."""
    old = held.meanings[keyword]
    if old is None and new is None:
        return None
    neutral = np.float32(not keyword.endswith("_zero"))
    if old is None:
        old = np.full(held.codes[EVERY[keyword]].shape, neutral)
    if new is None:
        new = np.full(codes.shape, neutral)
    return np.concatenate([old, new], axis=2)


def _stale(array: str) -> Callable[[], Attend]:
    """A maker of decoders that use the scale of the very first call for all sequences."""
    def make() -> Attend:
        inner, scales = coded_decoder({})(), list[Array]()

        def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
            """Query (B,H,T,D), key and value (B,Hkv,S,D) give the output and the cache."""
            codes = {"key": key, "value": value}[array]
            scale = whole_array(keywords, f"{array}_scale", codes)
            if scale is None or not scale.size:
                return inner(query, key, value, **keywords)
            first = scale[:, :, :1]
            if not scales or scales[0].shape != first.shape:
                scales[:] = [first.copy()]
            keywords[f"{array}_scale"] = np.broadcast_to(scales[0], codes.shape)
            return inner(query, key, value, **keywords)
        return attend
    return make


def _quantised_again() -> Attend:
    """A decoder that quantises its whole cache again in each call, by its largest number."""
    again = store_changed(lambda old, new: _in_eight_bits(np.concatenate([old, new], axis=2)))
    plain, coded = decoder()(), with_entries_read(decoder(again)())

    def attend(query: Array, key: Array, value: Array, **keywords: Any) -> Any:  # noqa: ANN401  (a call's)
        """Query (B,H,T,D), key and value (B,Hkv,S,D) give the output and the cache."""
        has_meanings = any(keywords.get(name) is not None for name in OF_ENTRIES)
        return (coded if has_meanings else plain)(query, key, value, **keywords)
    return attend


def _in_eight_bits(array: Array) -> Array:
    """(B,Hkv,S,·) in whole steps of a 127th of the largest number of a head."""
    step = np.abs(array).max(axis=(2, 3), keepdims=True, initial=0) / array.dtype.type(127)
    return np.rint(array / np.where(step == 0, 1, step)) * step


_OF_ZEROS: Mapping[str, tuple[str, str, PackedChange]] = {"without_offset": (
    "Each sequence reads its {} zero points from the first token of all on.", "{} zero points by token, two sequences",
    _without_offset)}
_ZEROS_IN_PAGES: Mapping[str, tuple[str, str, FindSlots]] = {"stay_behind": (
    "A page is given to an entry, and its {} zero points stay where pages would lie in order.",
    "{} zero points by token or page, pages that do not lie in order", _PAGED["stay_behind"][2])}
"""The same of zero points, which lie as scales do: one mistake of each form."""


def _faults_of_forms() -> Iterator[Fault]:
    """Each mistake with the scales and the zero points of keys and of values, in each form."""
    for array in CACHED_INPUTS:
        for word, of_packed, of_pages, of_past in (("scale", _PACKED, _PAGED, PAST_CHANGES),
                                                   ("zero", _OF_ZEROS, _ZEROS_IN_PAGES, ZERO_CHANGES)):
            keyword = f"{array}_{word}"
            for name, (story, reach, change) in of_packed.items():
                yield _fault_of_form(keyword, InputForm.PACKED, name, (story, reach), _make_packed(keyword, change))
            for name, (story, reach, find) in of_pages.items():
                yield _fault_of_form(keyword, InputForm.PAGED, name, (story, reach), _make_paged(keyword, find))
            for name, (story, reach, read) in of_past.items():
                yield _fault_of_form(keyword, InputForm.DECODER, name, (story, reach), coded_decoder({keyword: read}))
        yield _fault_of_form(f"{array}_scale", InputForm.DECODER, "stale",
                             ("The {} scale of the first call of all is kept for later ones.",
                              "{} scales by token, or another sequence before"), _stale(array))


def _fault_of_form(keyword: str, form: InputForm, name: str, texts: tuple[str, str],
                   make: Callable[[], Attend]) -> Fault:
    """A fault of one form. texts: its story and its reach, with {} for the array."""
    story, reach = (text.format(EVERY[keyword]) for text in texts)
    return Fault(f"{form.value}_{keyword}_{name}", keyword, story, reach, make, form=form)


FAULTS: tuple[Fault, ...] = (*_faults_of_forms(), Fault(
    "decoder_quantised_again", "key_scale", "The whole cache is quantised again in each call.",
    "codes, and a past that came in two calls and more", _quantised_again, form=InputForm.DECODER))
"""The faults of scales where codes are packed, lie in pages or are stored by a decoder."""
