"""Everything about a subject that its signature cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.ground.errors import Place
from attnspec.ground.keywords import Window
from attnspec.ground.nouns import DType, Kind


@dataclass(frozen=True, slots=True)
class Limits:
    """What a subject cannot take, by design. A declared limit makes a clause INAPPLICABLE, never VIOLATED.

    ties_value_width: Dv must equal D.  grouped: Hkv < H is accepted (None: not said, probed).
    self_attention_only: one input X serves as query, key and value, so T = S.
    ties_model_width: M = H·D.  broadcasts: masks of fewer axes or of size-1 axes are accepted.
    bias_is_mask: the only way to hand over a mask is an additive bias.
    weights: what is returned, `per_head` or `averaged`.
    has_biases: the layer adds b_query … b_out.   single_head: H = 1.   projects_output: the layer has w_out.
    min_head_width: the least D.   min_scores: the least B·H·T·S.
    contiguous_features: query, key and value must be contiguous along their last axis.
    mask_axes: the axes of (B,H,T,S) along which a mask may differ; along the others it is the same.
    causal_only: every call is causal; there is no flag that could be off.
    window_needs_causal: a window comes with the causal flag only.  window_is_symmetric: it reaches as far to the right
    as to the left.  window_is_bounded: both of its sides are numbers.  min_window: the least that a side may be.
    """

    ties_value_width: bool = False
    grouped: bool | None = None
    self_attention_only: bool = False
    ties_model_width: bool = False
    broadcasts: bool = False
    bias_is_mask: bool = False
    weights: str = "per_head"
    has_biases: bool = True
    single_head: bool = False
    projects_output: bool = True
    min_head_width: int = 1
    min_scores: int = 1
    contiguous_features: bool = False
    mask_axes: str = "BHTS"
    causal_only: bool = False
    window_needs_causal: bool = False
    window_is_symmetric: bool = False
    window_is_bounded: bool = False
    min_window: int = 0

    def window_misfit(self, window: Window, *, causal: bool) -> str:
        """What of a window the subject cannot take; empty if it takes it. Under the causal flag the right is moot."""
        sides = window[:1] if self.window_needs_causal else window
        if self.window_needs_causal and not causal:
            return "a window together with the causal flag only"
        if self.window_is_symmetric and len(set(sides)) == 2:
            return "a window that reaches as far to the right as to the left only"
        if self.window_is_bounded and None in sides:
            return "a window with a bound on either side only"
        if any(side is not None and side < self.min_window for side in sides):
            return f"a window of {self.min_window} keys a side and more only"
        return ""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A known deviation: the clause, how it fails, why, and the version until which it stands.

    issue: the public thread.  script: a file in the library's folder that shows it without attnspec. One is given.
    Of a baseline, `until` is empty and `script` is the baseline itself.
    """

    clause: str
    verdict: str
    reason: str
    issue: str
    until: str
    dtypes: tuple[DType, ...] = ()
    where: Place = field(default=Place(""), compare=False)
    script: str = ""

    @property
    def proof(self) -> str:
        """The thread, or else the script."""
        return self.issue or self.script

    @property
    def listing(self) -> str:
        """Where it is listed, for how long, and so what its listing proves."""
        return f"{self.proof}, until {self.until}" if self.until else self.proof

    @property
    def remedy(self) -> str:
        """What to do where it is not as listed."""
        return "mend the manifest" if self.until else "see whether that is meant, and run with --update-baseline"


@dataclass(frozen=True, slots=True)
class Variant:
    """The same subject with one hidden switch flipped: another function, and what it declares otherwise."""

    name: str
    function: str
    conventions: Mapping[str, str] = field(default_factory=dict)
    precision: Mapping[DType, Mapping[str, object]] = field(default_factory=dict)
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is declared of a subject. `precision` maps a dtype to the name or table of its precision class."""

    kind: Kind = Kind.ATTENTION
    keywords: frozenset[str] = frozenset()
    dtypes: tuple[DType, ...] = tuple(DType)
    left_out: Mapping[DType, str] = field(default_factory=dict)  # dtypes that are not in `dtypes`, each with the reason
    output_dtype: str = "input"  # "input", or the name of the dtype that is always returned
    limits: Limits = field(default_factory=Limits)
    conventions: Mapping[str, str] = field(default_factory=dict)
    precision: Mapping[DType, Mapping[str, object]] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    lift: str = ""  # "", "torch" or "jax"
    variants: Mapping[str, Variant] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()
