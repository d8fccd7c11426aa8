"""Correct attentions that compute in different ways. No clause may ever accuse them: false alarms are counted on them.

Each declares where it rounds; those that compute in float32 (or wider) for half dtypes and round once are of grade G0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnspec.core.declaration import Declaration, Limits
from attnspec.core.errors import TargetError
from attnspec.core.forms import InputForm
from attnspec.core.keyword_nouns import DROPOUT_POOL
from attnspec.core.keywords import KEYWORDS, UNCOMMON, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.faults import sound_dense as dense
from attnspec.faults.catalogue import ATTENTION_PROFILES, BESIDE_POOL, FORMED, FURTHER_PROFILES, RECOMMENDED
from attnspec.faults.dequantising import dequantised_first
from attnspec.faults.invariance import in_parts, whole
from attnspec.faults.mistakes import all_mistakes
from attnspec.faults.rotary_work import Rotate
from attnspec.faults.sound_decoder import CAPACITY, FORGETFUL, concatenating, forgetting, in_a_ring, preallocated
from attnspec.faults.sound_packed import by_sequence, with_block_mask
from attnspec.faults.sound_pages import page_by_page, side_by_side
from attnspec.faults.sound_rotary import FORMULATIONS as OF_ROTARY
from attnspec.faults.sound_rotary import declaration_of_rotary
from attnspec.faults.staged import Attend, attention, staged


@dataclass(frozen=True, slots=True)
class Sound:
    """A correct attention: how it computes, its grade in half dtypes, and what it does with rows that see nothing; or,
    by its kind, a correct rotary embedding.

    stores_lse: whether weights hang on a log-sum-exp that was stored.
    claims: profiles that bind only who claims them.  cache: how many keys a decoder's holds; 0: any number.
    overfull_cache: what it does with more.
    """

    name: str
    meaning: str
    make: Callable[[], Attend | Rotate]
    grade: str = "G0"
    hidden_row: str = "zeros"
    kind: Kind = Kind.ATTENTION
    form: InputForm = InputForm.DENSE
    stores_lse: bool = False
    claims: tuple[str, ...] = ()
    cache: int = 0
    overfull_cache: str = "grows"

    @property
    def function(self) -> Attend | Rotate:
        """A freshly made function; of another form than the dense one, it takes codes, too."""
        made = self.make()
        return made if self.form is InputForm.DENSE else dequantised_first(made)  # type: ignore[arg-type]  # no rotary embedding


SOUND: Mapping[str, Sound] = {sound.name: sound for sound in (
    Sound("naive", "the formula, line by line", dense.joined(dense.naive)),
    Sound("float64_inside", "the formula in float64, rounded once", dense.joined(dense.float64_inside)),
    Sound("online_blocks", "one pass over blocks of 16 keys, rescaling as the maximum rises",
          dense.joined(dense.online)),
    Sound("fused_blocks", "the same, with weights in the dtype of the inputs where they meet the values",
          dense.joined(dense.fused), grade="G1"),
    Sound("merged_splits", "splits of 64 keys, each with an output and a log-sum-exp of its own, merged by these",
          dense.joined(dense.merged), stores_lse=True),
    Sound("prescaled_query", "the query is multiplied by the scale before the product", staged(logits=dense.prescaled)),
    Sound("reversed_keys", "the keys are summed from last to first", dense.joined(dense.reversed_keys)),
    Sound("sorted_keys", "the keys are summed in the order of their contents", dense.joined(dense.sorted_keys)),
    Sound("einsum", "both products by einsum, which sums in another order",
          staged(logits=dense.einsum_logits, mix=dense.einsum_mix)),
    Sound("finite_minimum_mask", "hidden logits are replaced by the lowest finite number",
          staged(hide=dense.lowest_in_place), hidden_row="uniform"),
    Sound("finite_minimum_bias", "the lowest finite number is added to hidden logits",
          staged(logits=dense.of_seen_keys, hide=dense.lowest_added), hidden_row="uniform"),
    Sound("in_order", "the keys are summed one by one, so that the bits of a row hang on what it sees alone",
          in_parts(whole), claims=("batch_invariant",)),
    Sound("ring_buffer", "keys lie in a ring of few slots, and are summed slot by slot",
          staged(mix=dense.mixed_by_slots)),
    Sound("eager", "every intermediate result is stored in the dtype of the inputs", dense.joined(dense.eager),
          grade="G3"),
    Sound("packed_one_by_one", "packed sequences, one after the other", by_sequence(dense.naive),
          form=InputForm.PACKED),
    Sound("packed_block_mask", "packed sequences, all in one call under a mask of blocks", with_block_mask,
          form=InputForm.PACKED),
    Sound("paged_side_by_side", "keys and values of each entry, put side by side from their pages",
          side_by_side(dense.naive), form=InputForm.PAGED),
    Sound("paged_one_by_one", "one pass over the pages, rescaling as the maximum rises", page_by_page(dense.by_pages),
          form=InputForm.PAGED),
    Sound("decoder_concatenating", "past and new keys, one behind the other", concatenating(attention),
          form=InputForm.DECODER),
    Sound("decoder_preallocated", "a buffer that is allocated once, NaN where nothing was written",
          preallocated(attention), form=InputForm.DECODER, cache=CAPACITY, overfull_cache="refuses"),
    Sound("decoder_in_a_ring", "a ring of as many slots as a query sees keys", in_a_ring(attention),
          form=InputForm.DECODER),
    Sound("decoder_forgetting", "a buffer that forgets the oldest key where it is full", forgetting(attention),
          form=InputForm.DECODER, cache=FORGETFUL, overfull_cache="forgets_oldest"),
)}

_NOT_OF_DROPPING = frozenset({"weights"})

DROPPING: Mapping[str, Sound] = {
    name: Sound(name, meaning, make, grade) for part in load_parts("faults") if hasattr(part, "FORMULATIONS")
    for name, meaning, make, grade in part.FORMULATIONS}
"""Those that drop weights."""

_POOL_OF: Mapping[str, str] = {each.name: each.pool for aspect in all_mistakes() for each in aspect.sound}
"""By name, the pool whose keywords a formulation takes beside those of everybody."""

OF_ASPECTS: Mapping[str, Sound] = {
    each.name: Sound(each.name, each.meaning, each.make, each.grade)
    for aspect in all_mistakes() for each in aspect.sound}
"""Those that are about an aspect which the others do not take."""

EVERY: Mapping[str, Sound] = {**SOUND, **DROPPING, **OF_ASPECTS, **{
    name: Sound(name, meaning, make, grade, kind=Kind.ROTARY) for name, meaning, make, grade in OF_ROTARY}}
"""Those of attention, and those of rotary embeddings."""

DENSE: Mapping[str, Sound] = {name: sound for name, sound in SOUND.items() if sound.form is InputForm.DENSE}
"""Those that take (B,H,T,D)."""


def sound_named(name: str) -> Sound:
    """The sound formulation of this name. Raises TargetError, with the nearest name, where there is none."""
    if name not in EVERY:
        raise TargetError.unknown("sound formulation", name, EVERY)
    return EVERY[name]


def declaration_of_sound(sound: Sound) -> Declaration:
    """All profiles of attention claimed, the recommended conventions but for hidden rows, and the grade; all compute in
    float32 or wider, and vouch for its systematic error.
    """
    if sound.kind is Kind.ROTARY:
        return declaration_of_rotary(sound.grade)
    keywords = FORMED.get(sound.form, _keywords(sound))
    return Declaration(
        form=sound.form, keywords=keywords, limits=Limits(grouped=True, broadcasts=True, cache=sound.cache),
        conventions={**RECOMMENDED, "overfull_cache": sound.overfull_cache, "hidden_row": sound.hidden_row,
                     # a sum of lowest numbers is no empty sum
                     **({"lse_of_hidden_row": "unspecified"} if sound.hidden_row == "uniform" else {})},
        precision=_precision(sound),
        claims=() if sound.form is not InputForm.DENSE else (
            *(name for name in ATTENTION_PROFILES if name not in _NOT_OF_DROPPING or sound.name not in DROPPING),
            *dict.fromkeys(FURTHER_PROFILES[name] for name in UNCOMMON if name in keywords), *sound.claims))


def _precision(sound: Sound) -> Mapping[DType, Mapping[str, object]]:
    """Where it rounds, as a manifest says it."""
    rounded: dict[DType, dict[str, object]] = {
        dtype: {"grade": sound.grade, "systematic": "accumulator"} for dtype in (DType.FLOAT16, DType.BFLOAT16)}
    if not sound.stores_lse:
        return rounded
    reason = "each split's log-sum-exp is stored, and the splits are merged by it"
    return {dtype: {**rounded.get(dtype, {}), "logsumexp_roundings": 1, "reason": reason,
                    "logsumexp": (dtype if dtype is DType.FLOAT64 else DType.FLOAT32).value} for dtype in DType}


def _keywords(sound: Sound) -> frozenset[str]:
    """Those that drop weights take nothing of servers, and those of an aspect what its faults do; the others all but
    what these take.
    """
    words = (word for word in KEYWORDS.values() if Kind.ATTENTION in word.kinds)
    if sound.name in _POOL_OF:
        pool = _POOL_OF[sound.name]
        return frozenset(word.name for word in words if word.pool in {"", *BESIDE_POOL.get(pool, ()), pool})
    if sound.name not in DROPPING:
        return frozenset(word.name for word in words if word.pool not in {DROPOUT_POOL, *_POOL_OF.values()})
    return frozenset(word.name for word in words
                     if word.pool in {"", DROPOUT_POOL} and word.profile not in _NOT_OF_DROPPING)
