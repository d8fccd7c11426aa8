"""Says which problems a clause is about.

Importing this needs no NumPy: the spec's `given` is checked against `domain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Unpack, get_args

from attnspec.core.declaration import Limits
from attnspec.core.errors import SpecError, hint
from attnspec.core.forms import EVERY_VALUED, POSITIONS, ROTARY, RotaryLists
from attnspec.core.keyword import Values
from attnspec.core.keywords import BESIDE, KEYWORDS, UNCOMMON, VALUES
from attnspec.core.nouns import Kind as Poses

Kind = Literal["attention", "layer", "gaussian", "scale_ladder", "mask_attack", "mask_read_out",
               "logit_read_out", "worked_example", "acceptance", "score", "generic",
               "long", "panel", "rotary", "dropout", "features"]
Lengths = Literal["any", "self", "cross", "more_queries", "more_keys"]
Grouped = Literal["no", "maybe", "always"]
Inputs = Literal["any", "separate", "memory", "one"]
FamilyName = Literal[
    "integers", "normal", "uniform", "student_t", "constant", "near_ties", "huge_logits",
    "tiny_values", "one_hot",
    "alternating_values", "duplicated_keys", "log_normal", "offset", "tiny_query_key",
    "one_hot_values",
    "mixed_magnitudes", "extreme", "far_below_zero", "above_88", "cancellation", "signed_zeros",
    "gaussian", "scale_ladder", "faint_weights", "mask_attack", "mask_attack_far", "zero_query",
    "worked_example", "spread_logits", "beyond_float16"]
MaskName = Literal["all_true", "padding", "random", "per_head", "single_key", "block", "packed",
                   "banded",
                   "left_padding", "causal_like", "triangle", "with_empty_rows", "attack"]
BiasName = Literal["integers", "normal", "zero", "row_constant", "slopes", "large", "hiding"]

# Families that a clause must ask for: they serve one purpose and bring their own mask or shape.
SPECIAL_FAMILIES: frozenset[FamilyName] = frozenset(
    {"gaussian", "scale_ladder", "faint_weights", "mask_attack", "mask_attack_far", "zero_query",
     "worked_example", "spread_logits", "beyond_float16"})
# Masks that a clause must ask for: rows that see nothing, and the attack's own mask.
SPECIAL_MASKS: frozenset[MaskName] = frozenset({"with_empty_rows", "attack"})
# A bias that holds -inf is a mask, and a clause must ask for it.
SPECIAL_BIASES: frozenset[BiasName] = frozenset({"hiding"})

ANY_FAMILY: tuple[FamilyName, ...] = tuple(name for name in get_args(FamilyName)
                                           if name not in SPECIAL_FAMILIES)
ANY_MASK: tuple[MaskName, ...] = tuple(name for name in get_args(MaskName)
                                       if name not in SPECIAL_MASKS)
ANY_BIAS: tuple[BiasName, ...] = tuple(name for name in get_args(BiasName)
                                       if name not in SPECIAL_BIASES)
# A layer's entries must stay exact through its projections, which leaves two families.
LAYER_FAMILIES: tuple[FamilyName, ...] = ("integers", "huge_logits")

# A rotary embedding turns pairs, whatever they hold; what serves logits or values alone says nothing of it.
ROTARY_FAMILIES: tuple[FamilyName, ...] = (
    "integers", "normal", "uniform", "student_t", "log_normal", "tiny_values", "mixed_magnitudes",
    "signed_zeros")

# Families with random mantissas and no structure: the only ones that a law of independent roundings may judge. One
# that serves a purpose of its own, `gaussian`, is left out.
GENERIC_FAMILIES: tuple[FamilyName, ...] = (
    "normal", "uniform", "student_t", "huge_logits", "log_normal", "offset", "extreme")
# Kinds that are judged by such a law. A bias that repeats itself would make roundings repeat.
GENERIC_KINDS: frozenset[Kind] = frozenset({"generic", "long", "panel"})

# Along which of the axes B, H, T and S a mask differs.
MASK_AXES: Mapping[MaskName, str] = {
    "all_true": "", "padding": "BS", "random": "BHTS", "per_head": "BHS", "single_key": "BHTS",
    "block": "BTS",
    "packed": "BTS", "banded": "BTS", "left_padding": "BS", "causal_like": "BTS", "triangle": "TS",
    "with_empty_rows": "BHTS", "attack": "S"}


@dataclass(frozen=True)
class Domain:
    """The problems of a clause, with every name looked up. `domain` makes and documents it."""

    kind: Kind
    always: frozenset[str]
    sometimes: frozenset[str]
    lengths: Lengths
    grouped: Grouped
    families: tuple[FamilyName, ...]
    masks: tuple[MaskName, ...]
    biases: tuple[BiasName, ...]
    scales: tuple[float, ...]
    inputs: Inputs
    min_batch: int
    min_heads: int
    min_queries: int
    min_keys: int
    min_width: int
    min_value_width: int
    # a mapping has no hash; equality looks at it
    values: Mapping[str, tuple[Any, ...]] = field(hash=False)

    @property
    def is_layer(self) -> bool:
        """Whether problems are LayerProblems, made by `make_layer`."""
        return self.poses is Poses.LAYER

    @cached_property
    def poses(self) -> Poses:
        """The kind of subject that its problems are for."""
        if self.kind == "rotary":
            return Poses.ROTARY
        return Poses.LAYER if self.kind in {"layer", "acceptance"} else Poses.ATTENTION

    def always_within(self, limits: Limits) -> frozenset[str]:
        """The keywords of every case on a subject, with those that it requires beside them.

        Without these where the clause does not offer them.
        """
        keywords = self.always.union(*map(limits.brings, self.always))
        return keywords if keywords <= self.always | self.sometimes else self.always

    def masks_within(self, limits: Limits) -> tuple[MaskName, ...]:
        """The masks that the subject takes.

        All where it takes none of them, so that its refusal says why.
        """
        axes = set(limits.mask_axes)
        return tuple(name for name in self.masks if set(MASK_AXES[name]) <= axes) or self.masks


def spell_domain(domain: Domain) -> str:
    """The domain as text, the same in every process: sets have no order of their own.

    What most clauses do not say (uncommon keywords, wide values) is left out, so that it does not
    change the seeds of the others.
    """
    plain = replace(domain, sometimes=domain.sometimes - set(UNCOMMON))
    values = []
    for each in fields(plain):
        value = getattr(plain, each.name)
        # what is left out of the text leaves the seeds of older clauses as they are
        if each.name == "values" or (each.name == "min_value_width" and value == 1):
            continue
        values.append(sorted(value) if isinstance(value, frozenset) else value)
    return repr(values)


# What a kind fixes unless the clause says otherwise.
_FAMILIES_OF_KIND: Mapping[Kind, tuple[FamilyName, ...]] = {
    "layer": LAYER_FAMILIES, "acceptance": ("integers",), "gaussian": ("gaussian",),
    "scale_ladder": ("scale_ladder",),
    "mask_attack": ("mask_attack", "mask_attack_far"), "mask_read_out": ("zero_query",),
    "logit_read_out": ("integers",), "worked_example": ("worked_example",),
    "score": ("spread_logits",), "rotary": ROTARY_FAMILIES, "dropout": ("normal", "uniform"),
    **dict.fromkeys(GENERIC_KINDS, GENERIC_FAMILIES)}
_BIASES_OF_KIND: Mapping[Kind, tuple[BiasName, ...]] = dict.fromkeys(GENERIC_KINDS, ("normal",))
# One key hides nothing and makes no ladder.
_LEAST_KEYS_OF_KIND: Mapping[Kind, int] = {"mask_attack": 2, "scale_ladder": 2}
_MASKS_OF_KIND: Mapping[Kind, tuple[MaskName, ...]] = {"mask_attack": ("attack",),
                                                       "acceptance": ("triangle",)}
_KEYWORDS_OF_KIND: Mapping[Kind, frozenset[str]] = {"mask_attack": frozenset({"mask"}),
                                                    "acceptance": frozenset({"mask"}),
                                             "rotary": frozenset({POSITIONS})}


def domain(
    *,
    kind: Kind = "attention",
    always: Sequence[str] = (),
    sometimes: Sequence[str] = (),
    lengths: Lengths = "any",
    grouped: Grouped = "no",
    families: Literal["any"] | Sequence[FamilyName] = "any",
    masks: Literal["any"] | Sequence[MaskName] = "any",
    biases: Literal["any"] | Sequence[BiasName] = "any",
    scales: Literal["any"] | Sequence[float] = "any",
    inputs: Inputs = "any",
    min_batch: int = 1,
    min_heads: int = 1,
    min_queries: int = 1,
    min_keys: int = 1,
    min_width: int = 1,
    min_value_width: int = 1,
    **lists: Unpack[RotaryLists],
) -> Domain:
    """The problems that a clause is about.

    kind: plain attention, a layer, a rotary embedding, or a problem built for one purpose.
    always, sometimes: optional keywords that are used in every case, or in about half (only if the
    subject takes them).
    lengths: how T and S compare.  grouped: whether query heads share key/value heads.
    families, masks, biases: how entries are made; `any` leaves out those built for one purpose,
    and for problems judged by a law of chance (generic, long, panel) all with a structure.
    scales: values of the keyword `scale`.
    inputs: whether a layer is fed three arrays, two (a memory), or one.
    min_*: the least B, H, T, S, D and Dv. A list in the plural of another keyword's name: the
    values of that keyword.

    Raises SpecError for a keyword that does not exist, and for what the kind of problem cannot
    have.
    """
    if unknown := lists.keys() - {values.plural for values in EVERY_VALUED.values()}:
        raise TypeError(f"domain() got an unexpected keyword argument {min(unknown)!r}")
    if kind in {"layer", "acceptance"}:
        _check_layer_words(families, {*always, *sometimes})
    if kind in GENERIC_KINDS:
        _check_generic_words(kind, families, biases)
    if kind == "score":
        _check_score_words({*always, *sometimes})
    if families == "any":
        families = _FAMILIES_OF_KIND.get(kind, ANY_FAMILY)
    if biases == "any":
        biases = _BIASES_OF_KIND.get(kind, ANY_BIAS)
    return Domain(
        kind, _known_keywords(always, kind) | _KEYWORDS_OF_KIND.get(kind, frozenset()),
        _known_keywords(sometimes, kind), lengths, grouped, tuple(families),
        _mask_names(kind, masks), tuple(biases), _keyword_values(kind, VALUES["scale"], scales),
        inputs, min_batch, min_heads, min_queries, max(min_keys, _LEAST_KEYS_OF_KIND.get(kind, 1)),
        min_width, min_value_width,
        {name: _keyword_values(kind, values, lists.get(values.plural, "any"))
         for name, values in EVERY_VALUED.items()})


def _check_layer_words(families: str | Sequence[str], keywords: set[str]) -> None:
    """Refuses families with inexact projections, and keywords that no layer takes."""
    for name in _listed_names(families):
        if name not in LAYER_FAMILIES:
            raise SpecError("a layer cannot have the value family "
                            f"{name!r}.{hint(name, LAYER_FAMILIES)}")
    for name in sorted(keywords):
        if name in KEYWORDS and not KEYWORDS[name].in_layers:
            raise SpecError(f"a layer takes no keyword {name!r}.")


def _listed_names(names: str | Sequence[str]) -> Sequence[str]:
    return () if names == "any" else names


def _check_generic_words(kind: Kind, families: str | Sequence[str],
                         biases: str | Sequence[str]) -> None:
    """Refuses structured entries, whose roundings depend on each other, so that no law holds."""
    for what, names, known in (("value family", families, GENERIC_FAMILIES),
                               ("bias", biases, _BIASES_OF_KIND[kind])):
        for name in _listed_names(names):
            if name not in known:
                raise SpecError(f"problems of kind {kind!r} are judged by a law of chance; "
                                f"the {what} {name!r} has a structure.{hint(name, known)}")


def _check_score_words(keywords: set[str]) -> None:
    """Refuses keywords for problems that look for a drift in plain logits of all keys."""
    for name in sorted(keywords & set(UNCOMMON)):
        raise SpecError("problems of kind 'score' use the plain logits of all keys, "
                        f"so they cannot have {name!r}.")


def _keyword_values(kind: Kind, values: Values, own: Any) -> tuple[Any, ...]:  # noqa: ANN401  (by the keyword)
    """The values of a keyword: the clause's own list, or that of the keyword's definition."""
    if own != "any":
        return tuple(map(values.taken, own))
    if kind in GENERIC_KINDS and values.generic:
        return values.generic
    return values.usual


def _mask_names(kind: Kind, masks: Literal["any"] | Sequence[MaskName]) -> tuple[MaskName, ...]:
    if kind not in _MASKS_OF_KIND:
        return ANY_MASK if masks == "any" else tuple(masks)
    if masks != "any":
        raise SpecError(f"the kind {kind!r} brings its own mask: leave out `masks`.")
    return _MASKS_OF_KIND[kind]


def _known_keywords(names: Sequence[str], kind: Kind) -> frozenset[str]:
    keywords = ROTARY if kind == "rotary" else KEYWORDS
    for name in names:
        if name not in keywords:
            raise SpecError.unknown("keyword", name, keywords)
    # a keyword that is given beside another is given wherever that is
    return frozenset({*names, *(BESIDE[name] for name in names if name in BESIDE)})
