"""Defines what is declared of a subject: everything that its signature cannot say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property, reduce
from typing import Any, Literal

from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.errors import FileLocation
from attnspec.core.forms import InputForm
from attnspec.core.keyword import KeywordLimits
from attnspec.core.keywords import CACHED, KEYWORDS, keywords_beside, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.core.sizes import Refusal, RefusalCondition, nearest_taken


@dataclass(frozen=True, slots=True)
class Deviation:
    """A known deviation: the clause, how it fails, why, and the version until which it stands.

    issue: the public thread.
    script: a file in the library's folder that shows it without attnspec. One of them is given. Of
    a baseline, `until` is empty and `script` is the baseline itself.
    how: as `Outcome.failure_kind`;  empty: in any way.
    case: the recipe of a case on which it fails.  finding: the id of the finding that explains it.
    """

    clause: str
    verdict: str
    reason: str
    issue: str
    until: str
    dtypes: tuple[DType, ...] = ()
    where: FileLocation = field(default=FileLocation(""), compare=False)
    script: str = ""
    how: str = ""
    case: str = ""
    finding: str = ""

    @property
    def proof(self) -> str:
        """The finding, and the thread or else the script."""
        return ", ".join(filter(None, (self.finding, self.issue or self.script)))

    @property
    def failure(self) -> str:
        """The verdict, with its reason if known: `violated (agrees_with_definition)`."""
        return f"{self.verdict} ({self.how})" if self.how else self.verdict

    @property
    def listing(self) -> str:
        """Where the deviation is listed, and for how long."""
        return f"{self.proof}, until {self.until}" if self.until else self.proof

    @property
    def remedy(self) -> str:
        """What to do where a deviation is not as listed."""
        return ("correct the manifest" if self.until
                else "if that is intended, run with --update-baseline")


# What a finding does to whoever uses the library


class Harm(Enum):
    """What a finding does to users, gravest first.

    First come silently wrong answers at everyday settings, then what is loud or rare, and last
    what is documented.
    """

    FOREIGN_MEMORY = "foreign_memory"
    FOREIGN_ENTRY = "foreign_entry"
    FUTURE = "future"
    MASK_DROPPED = "mask_dropped"
    WRONG_ANSWER = "wrong_answer"
    SWITCH = "switch"
    REFUSED = "refused"
    EDGE = "edge"
    ROUNDING = "rounding"
    EXTREME = "extreme"
    DOCUMENTED_CHOICE = "documented_choice"

    @property
    def rank(self) -> int:
        """The rank of a harm: 0 is the gravest."""
        return tuple(Harm).index(self)

    @property
    def is_serious(self) -> bool:
        """Whether the harm is a silently wrong answer at everyday settings."""
        return self.rank <= Harm.WRONG_ANSWER.rank

    @property
    def says(self) -> str:
        """The harm in a few words."""
        return _HARM_TEXTS[self]


_HARM_TEXTS: Mapping[Harm, str] = {
    Harm.FOREIGN_MEMORY: "reads memory that was never written, or that is not part of the arrays",
    Harm.FOREIGN_ENTRY: "mixes up batch entries",
    Harm.FUTURE: "a query sees later keys",
    Harm.MASK_DROPPED: "a mask or a bias is dropped or misread",
    Harm.WRONG_ANSWER: "silently wrong in another way at everyday settings",
    Harm.SWITCH: "a switch that should not matter changes the answer",
    Harm.REFUSED: "an ordinary call raises",
    Harm.EDGE: "an edge case (no key to attend to, NaN in a masked key or value, T ≠ S)",
    Harm.ROUNDING: "rounding errors are larger than they should be",
    Harm.EXTREME: "wrong at extremes of a dtype or of a scale",
    Harm.DOCUMENTED_CHOICE: "a documented choice",
}


INPUT = "input"
"""The output has the dtype of the inputs."""

LENGTHS: Mapping[str, Callable[[int, int], bool]] = {
    "any": lambda T, S: True,  # noqa: ARG005  (the same parameters for all)
    "equal": lambda T, S: T == S,
    "no_more_queries": lambda T, S: T <= S,
}
"""By answer, whether a subject takes T queries and S keys."""


def with_groups(sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes with G beside the others."""
    return {**sizes, "G": sizes["H"] // sizes["Hkv"]}


_CHOSEN = tuple(each.name for each in fields(KeywordLimits) if each.default == "")
"""The limits of aspects that are empty where nothing is declared."""


def _even_axes(limits: KeywordLimits) -> Iterator[str]:
    """The axes that have to be even under these limits, as the aspects say."""
    for part in load_parts("keyword"):
        if hasattr(part, "even_axes"):
            yield from part.even_axes(limits)


@dataclass(frozen=True)
class Limits(KeywordLimits):
    """What a subject cannot take, by design. A declared limit makes a clause INAPPLICABLE, never
    VIOLATED.

    ties_value_width: Dv must equal D.  grouped: Hkv < H is accepted (None: not said, probed).
    self_attention_only: one input X serves as query, key and value, so T = S.
    one_memory: a second input, the memory, serves as key and value.  ties_model_width: M = H·D.
    broadcasts: masks of fewer axes or of size-1 axes are accepted.
    bias_is_mask: the only way to hand over a mask is an additive bias.
    weights: what is returned, `per_head` or `averaged`.
    has_biases: the layer adds b_query … b_out.  biases: which of them, `all` or `query key out`.
    single_head: H = 1.  projects_output: the layer has w_out.  min_head_width: the least D.
    min_scores: the least B·H·T·S.  contiguous: query, key and value must be contiguous.
    contiguous_features: along their last axis.
    mask_axes: the axes of (B,H,T,S) along which a mask may differ; along the others it is the
    same.
    lengths: which numbers of queries and keys are taken: `any`, `equal` (T = S), `no_more_queries`
    (T ≤ S).
    causal_lengths: the same under the causal flag.
    past_lengths: how many new keys are taken where there is a past, in place of `lengths`: `any`,
    or `equal`, as many as queries. One input serves for both, so that `self_attention_only` says
    the same.
    cache: of a decoder, the most keys that its cache holds; 0 says nothing of it.
    causal_only: every call is causal; there is no flag that could be off.
    page_multiple: of a paged function, the number of slots of which pages have a multiple.
    constant_bias: a bias has no gradient.
    refuses: sizes, and keywords together or at sizes, that are not taken.
    """

    ties_value_width: bool = False
    grouped: bool | None = None
    self_attention_only: bool = False
    one_memory: bool = False
    ties_model_width: bool = False
    broadcasts: bool = False
    bias_is_mask: bool = False
    weights: str = "per_head"
    has_biases: bool = True
    biases: str = "all"
    single_head: bool = False
    projects_output: bool = True
    min_head_width: int = 1
    min_scores: int = 1
    contiguous_features: bool = False
    contiguous: bool = False
    mask_axes: str = "BHTS"
    lengths: str = "any"
    causal_lengths: str = "any"
    past_lengths: str = "any"
    causal_only: bool = False
    cache: int = 0
    page_multiple: int = 1
    constant_bias: bool = False
    refuses: tuple[Refusal, ...] = ()

    def takes_lengths(self, T: int, S: int, *, causal: bool) -> bool:
        """Whether so many queries and keys are taken, under the causal flag or without it."""
        return LENGTHS[self.lengths](T, S) and (not causal or LENGTHS[self.causal_lengths](T, S))

    def is_biased(self, projection: str) -> bool:
        """Whether the layer adds a bias to this projection: query, key, value or out."""
        return self.has_biases and (self.biases == "all" or projection in self.biases.split())

    def takes_behind_past(self, T: int, S: int) -> bool:
        """Whether so many queries and new keys are taken behind a past."""
        return T == S or not self.is_step

    @property
    def is_step(self) -> bool:
        """Whether a call behind a past has as many new keys as queries."""
        return self.past_lengths == "equal" or self.self_attention_only

    def is_behind_past(self, keywords: Collection[str]) -> bool:
        """Whether, with these keywords, `past_lengths` limits the queries and keys."""
        return self.is_step and CACHED[0] in keywords

    @cached_property
    def all_refusals(self) -> tuple[Refusal, ...]:
        """All refusals: declared ones, a cache's overflow, and lengths that must be even."""
        refusals = list(self.refuses)
        if self.cache:
            refusals.append(Refusal((RefusalCondition("S", ">", self.cache),)))
        if any(getattr(self, name) for name in _CHOSEN):
            refusals += [Refusal((RefusalCondition(axis, "≠", 0, 2),))
                         for axis in _even_axes(self)]
        return tuple(refusals)

    def brings(self, keyword: str) -> frozenset[str]:
        """The keywords without which the subject does not take this one."""
        always = (each.without for each in self.refuses
                  if each.keywords == {keyword} and not each.conditions)
        return keywords_beside(self, keyword).union(*always)

    def misfit(self, keyword: str, value: object, *, causal: bool) -> str:
        """What the subject cannot take of a keyword's value; empty if it takes it."""
        judge = KEYWORDS[keyword].misfit if keyword in KEYWORDS else None
        return judge(self, value, causal) if judge else ""

    def misfit_of(self, sizes: Mapping[str, int], keywords: Collection[str] = ()) -> str:
        """What of these sizes is not taken with these keywords, after `the subject …`; empty if
        they are.

        sizes: B, H, Hkv, T, S, D and Dv by name. What only a layer cannot take is not asked here.
        """
        is_step, is_causal = self.is_step and CACHED[0] in keywords, "causal" in keywords
        T, S, groups = sizes["T"], sizes["S"], sizes["H"] // sizes["Hkv"]
        if self.min_head_width > sizes["D"]:
            reason = f"takes only heads of width {self.min_head_width} or more"
        elif self.min_scores > sizes["B"] * sizes["H"] * T * S:
            reason = f"takes only problems of {self.min_scores} scores (B·H·T·S) or more"
        elif self.self_attention_only and T != S and not is_step:
            reason = "takes only as many queries as keys (T = S)"
        elif self.ties_value_width and sizes["Dv"] != sizes["D"]:
            reason = "takes only values as wide as keys (Dv = D)"
        elif self.grouped is False and groups > 1:
            reason = "takes only as many key/value heads as query heads"
        elif not is_step and not self.takes_lengths(T, S, causal=is_causal):
            reason = ("does not take so many queries and "
                      f"keys{' under the causal flag' * is_causal}")
        else:
            reason = next((f"refuses {each}" for each in self.all_refusals
                           if each.meets({**sizes, "G": groups}, keywords)), "")
        return reason

    def nearest(self, axis: str, size: int, *, partner: str = "", least: int = 1) -> int:
        """The nearest size that is taken along this axis, whatever the others are; smaller ones
        first.

        partner: an axis that is as long as this one.  least: the smallest size in question.
        """
        return nearest_taken(max(size, least), self.refused_along(axis, partner), least)

    def refused_along(self, *axes: str) -> tuple[RefusalCondition, ...]:
        """The conditions on one of these axes under which everything is refused."""
        conditions = (each.single_condition for each in self.all_refusals)
        return tuple(each for each in conditions if each and each.axis in axes)

    @property
    def inputs(self) -> Literal["separate", "memory", "one"]:
        """The least inputs of a layer: three arrays, a query and a memory, or one."""
        if self.self_attention_only:
            return "one"
        return "memory" if self.one_memory else "separate"

    @property
    def ties_lengths(self) -> bool:
        """Whether there are always as many queries as keys."""
        return self.self_attention_only or self.lengths == "equal"


_ODD = Refusal((RefusalCondition("D", "≠", 0, 2),))


def within_form(limits: Limits) -> Limits:
    """The limits of a rotary embedding: those of one array, whose features come in pairs."""
    return replace(limits, grouped=False, ties_value_width=True, lengths="equal",
                   refuses=(*limits.refuses, _ODD))


_OF_KEYWORDS = tuple(each.name for each in fields(KeywordLimits))
LIMITS = (*(each.name for each in fields(Limits) if each.name not in _OF_KEYWORDS), *_OF_KEYWORDS)
"""The names of all limits, those of single keywords last."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A subject with one hidden switch flipped: another function, and what it declares otherwise.

    compiles: a compiler runs for every new shape or set of keywords, so it is put the first cases
    of a trial alone. precision_on: by the kind of device, what is declared otherwise there.
    versions: of the library, those that have the switch; empty: all.
    """

    name: str
    function: str
    conventions: Mapping[str, str] = field(default_factory=dict)
    precision: Mapping[DType, Mapping[str, object]] = field(default_factory=dict)
    weights: str = ""
    compiles: bool = False
    precision_on: Mapping[str, Mapping[DType, Mapping[str, object]]] = field(default_factory=dict)
    versions: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is declared of a subject.

    keywords, defaults: what its function takes. Parameters that are none of attnspec's are left at
    these defaults.
    off: the flags among its keywords that are off only where a call says so, each with False.
    spelled: by keyword, the name of the parameter that it is given by, where that is another one.
    left_out: the dtypes that are not in `dtypes`, each with the reason.
    precision: maps a dtype to the name or table of its precision class.
    output_dtype: `input`, the name of the dtype that is always returned, or `undefined`, which
    promises neither and is judged as `input`.
    precision_on: by the kind of device (`cuda`), the classes that take the place of those dtypes'
    there.
    lift: "", "torch" or "jax".
    compiles: whether a compiler runs for every new shape (None: not said; what JAX runs is
    compiled).
    sizes: those that it is used at, which are tried beside what is drawn (see `core/sizes.py`).
    blocks: by axis, the lengths of the blocks that it cuts it into: their ends are drawn more
    often.
    form: how its arrays are laid out.  given: what that form gives it beside them.
    made: the variants that attnspec makes itself in an audit (see `core/forms.py`).
    backward_precision: as precision, of the backward pass: what is otherwise there than the
    forward pass says.
    """

    kind: Kind = Kind.ATTENTION
    keywords: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    off: Mapping[str, bool] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    dtypes: tuple[DType, ...] = tuple(DType)
    # dtypes that are not in `dtypes`, each with the reason
    left_out: Mapping[DType, str] = field(default_factory=dict)
    output_dtype: str = INPUT
    limits: Limits = field(default_factory=Limits)
    conventions: Mapping[str, str] = field(default_factory=dict)
    precision: Mapping[DType, Mapping[str, object]] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    lift: str = ""  # "", "torch" or "jax"
    variants: Mapping[str, Variant] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()
    precision_on: Mapping[str, Mapping[DType, Mapping[str, object]]] = field(default_factory=dict)
    compiles: bool | None = None
    sizes: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    form: InputForm = InputForm.DENSE
    given: frozenset[str] = frozenset()
    backward_precision: Mapping[DType, Mapping[str, object]] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    @property
    def is_compiled(self) -> bool:
        """Whether a compiler runs for every new shape: then few shapes serve all clauses."""
        return self.lift == "jax" if self.compiles is None else self.compiles

    @property
    def has_compiled_variant(self) -> bool:
        """Whether a compiler runs for each new shape of some variant."""
        return any(variant.compiles for variant in self.variants.values())

    @property
    def main_dtypes(self) -> tuple[DType, ...]:
        """The dtypes in which models compute: all but float64, unless there is no other."""
        return tuple(dtype for dtype in self.dtypes if dtype is not DType.FLOAT64) or self.dtypes

    def precision_there(self, kind: str) -> Mapping[DType, Mapping[str, object]]:
        """The precision classes on a kind of device; those declared for it come first."""
        return {**self.precision, **self.precision_on.get(kind, {})}

    def returned_dtype(self, dtype: DType) -> DType:
        """The dtype that the output should have where the inputs have this one."""
        return dtype if self.output_dtype in (INPUT, UNDEFINED) else DType(self.output_dtype)


def of_kind(declaration: Declaration, kind: Kind) -> Declaration:
    """The declaration for a subject of this kind; a rotary embedding has its form's limits."""
    if kind is Kind.ROTARY:
        declaration = replace(declaration, limits=within_form(declaration.limits))
    return replace(declaration, kind=kind)


def asked_of(kind: Kind, keywords: Collection[str]) -> tuple[str, ...]:
    """The conventions that a subject is asked: those of its kind and its keywords.

    A rotary embedding whose pairs are a keyword has no convention of them.
    """
    if kind is Kind.ROTARY:
        return () if "interleaved" in keywords else ("rotary_pairs",)
    return tuple(name for name, each in CONVENTIONS.items() if not each.keyword or each.keyword in keywords)


_SAYS: Mapping[tuple[str, ...], tuple[str, Any]] = {
    ("T ≠ S", "S ≠ T"): ("lengths", "equal"),
    ("T > S", "S < T"): ("lengths", "no_more_queries"),
    ("causal with T ≠ S", "causal with S ≠ T"): ("causal_lengths", "equal"),
    ("causal with T > S", "causal with S < T"): ("causal_lengths", "no_more_queries"),
    ("Dv ≠ D", "D ≠ Dv"): ("ties_value_width", True),
    ("G > 1", "G ≠ 1", "Hkv < H", "H > Hkv", "Hkv ≠ H", "H ≠ Hkv"): ("grouped", False),
}
"""By the ways to write a refusal, the limit that says the same, and its value."""


def narrowed_by(limits: Limits, refusals: Iterable[Refusal]) -> Limits:
    """The limits with these refusals among them."""
    return reduce(_narrow_limits, refusals, limits)


def limits_saying(refusals: Collection[str]) -> frozenset[str]:
    """The names of the limits that say one of these refusals, as they are written."""
    return frozenset(name for ways, (name, _) in _SAYS.items() if not {*ways}.isdisjoint(refusals))


def _narrow_limits(limits: Limits, refusal: Refusal) -> Limits:
    # no two limits are written alike
    for ways, (name, value) in _SAYS.items():
        if str(refusal) in ways and getattr(limits, name) == getattr(Limits(), name):
            change: dict[str, Any] = {name: value}
            return replace(limits, **change)
    if refusal in limits.refuses:
        return limits
    return replace(limits, refuses=(*limits.refuses, refusal))
