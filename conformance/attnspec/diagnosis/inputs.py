"""Holds the panel: calls that tell the faults of the catalogue apart, the same for every subject.

Rotary embeddings have calls of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Limits
from attnspec.core.forms import POSITIONS, width_of
from attnspec.core.keywords import CACHED, COUNTS, FROM_PLACE, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.diagnosis.candidate import FaultCandidate
from attnspec.diagnosis.tolerance import Aspect, ComparisonStandard
from attnspec.faults.catalogue import RECOMMENDED
from attnspec.faults.fault import (
    BLOCKS,
    EVEN,
    GROUPED,
    GROUPED_LAYER,
    LONG,
    LONGER,
    ONE,
    ONE_KEY,
    QUERIES,
    REMEMBERED,
    REMEMBERED_LAYER,
    SQUARE,
    SQUARE_LAYER,
    WIDE_LAYER,
    Fault,
    of_aspects,
    panel_recipe,
)
from attnspec.numerics.precision import Precision
from attnspec.problems.make import RotaryProblem, make_layer, make_problem, make_rotary, model_width
from attnspec.problems.problem import Problem, Recipe, Sizes
from attnspec.questions.inputs import YES
from attnspec.subjects.lowering import lowering_misfit
from attnspec.subjects.subject import Subject
from attnspec.trials.judging import LoggedCall, is_poisoned, log_call
from attnspec.vocabulary.scene import AnyProblem, Posed
from attnspec.vocabulary.transforms.contents import broadcast_mask, lay_out, replace_hidden

_FEW, _WIDE = Sizes(2, 2, 2, 5, 5, 8, 8), Sizes(3, 2, 2, 9, 9, 24, 24)


def _recipe(sizes: Sizes, positions: str, keywords: str = "", *, seed: int,
            width: str = "half") -> Recipe:
    """The recipe of a call of a rotary embedding; it turns a part of the features alone."""
    assert width_of(width, sizes.D) < sizes.D
    # far from the usual base, so that who ignores it turns visibly otherwise
    values = {POSITIONS: positions, "base": 500000.0, "rotary_width": width}
    features = frozenset({POSITIONS, *keywords.split()})
    return Recipe(sizes, ("normal",), "none", features, seed,
                  values={name: value for name, value in values.items() if name in features})


ROTARY_CALLS = (
    _recipe(_FEW, "counted", seed=1), _recipe(_FEW, "offset", seed=2),
    _recipe(_FEW, "scattered", seed=3),
    _recipe(_FEW, "packed", seed=4), _recipe(_FEW, "far", seed=5), _recipe(_FEW, "zero", seed=6),
    _recipe(_FEW, "offset", "base", seed=7), _recipe(_FEW, "offset", "rotary_width", seed=8),
    _recipe(_FEW, "offset", "interleaved", seed=9),
    _recipe(_WIDE, "scattered", "base rotary_width", seed=10),
    _recipe(_WIDE, "scattered", "interleaved rotary_width", seed=11, width="two"),
    _recipe(_WIDE, "far", "base interleaved", seed=12),
    _recipe(_WIDE, "counted", "base interleaved rotary_width", seed=13),
)
"""The calls for rotary embeddings and their faults."""

LEAVABLE_KEYWORDS: Mapping[str, tuple[str, object]] = {
    "rotary_width": ("a rotary width < D", None), "base": ("base", None),
    "interleaved": ("interleaved", False)}
"""By optional keyword of a rotary embedding: its name in words, and the value that omits it."""


def locate_in_rotation(bar: ComparisonStandard, failing: Sequence[AnyProblem]) -> str:
    """The keywords without which a failing case is answered rightly, in a sentence; or empty."""
    for problem in failing:
        if isinstance(problem, RotaryProblem):
            names = " or ".join(_needed_keywords(bar, problem))
            if names:
                return f"the answer is wrong here, and right once {names} is left out"
    return ""


def _needed_keywords(bar: ComparisonStandard, problem: RotaryProblem) -> Iterator[str]:
    if _answers_rightly(bar, problem):
        return
    for keyword, (name, nothing) in LEAVABLE_KEYWORDS.items():
        is_given = (keyword in problem.keywords
                    and (keyword != "rotary_width" or problem.width < problem.x.shape[-1]))
        if is_given and _answers_rightly(bar, problem.but(**{keyword: nothing})):
            yield name


def _answers_rightly(bar: ComparisonStandard, problem: RotaryProblem) -> bool:
    if bar.subject.refuses(problem):
        return False
    return bar.ruler(problem).is_right_call(log_call(bar.subject, problem), is_subject=True)


@dataclass(frozen=True, slots=True)
class DiagnosticCall:
    """A call of the panel.

    flips: whether it is put with each hidden switch flipped, too.  change: transforms it.
    """

    recipe: Recipe
    flips: bool = False
    change: Callable[[Posed[Problem]], Posed[Problem]] | None = None


def _call(sizes: Sizes, keywords: str, families: str = "normal", *, flips: bool = False,
          change: Callable[[Posed[Problem]], Posed[Problem]] | None = None,
          **fields: Any) -> DiagnosticCall:  # noqa: ANN401  (as `panel_recipe`)
    return DiagnosticCall(panel_recipe(sizes, keywords, families, **fields), flips, change)


def _hidden_above(call: Posed[Problem]) -> Posed[Problem]:
    """The mask-constant attack turned round: hidden logits far above those that are seen."""
    problem = call.one
    if problem.mask is None:
        return call
    return call.but(query=-problem.query, mask=~problem.mask)


_STRIDED, _TRANSPOSED = partial(lay_out, layout="strided"), partial(lay_out, layout="transposed")

ATTENTION_CALLS: tuple[DiagnosticCall, ...] = (
    # calls of one shape that come again with other contents: what is kept from call to call shows
    *(_call(REMEMBERED, "mask bias scale", seed=seed, scale=scale)
      for seed, scale in ((1, 0.3), (2, 0.125), (1, 0.3), (3, 1.0), (2, 0.125), (4, -0.25),
                          (1, 0.3), (5, 0.3))),
    _call(REMEMBERED, "causal", seed=2), _call(LONGER, "causal", seed=3),
    _call(REMEMBERED, "causal", seed=4),
    _call(REMEMBERED, "", seed=2), _call(REMEMBERED, "", seed=3),
    # each keyword alone, with as many queries as keys and with more or fewer
    _call(SQUARE, "", flips=True), _call(GROUPED, "", seed=2),
    _call(GROUPED, "causal", seed=3, flips=True),
    _call(QUERIES, "causal", seed=4), _call(SQUARE, "causal", seed=5),
    _call(SQUARE, "mask", flips=True),
    _call(SQUARE, "mask", mask="per_head", seed=6), _call(QUERIES, "mask", mask="padding", seed=7),
    # keywords together, and scales of either sign
    _call(GROUPED, "mask causal", seed=8), _call(GROUPED, "bias", seed=9),
    _call(SQUARE, "bias", bias="large"),
    _call(SQUARE, "mask bias causal", seed=11), _call(SQUARE, "scale", scale=0.3, seed=12),
    _call(SQUARE, "scale", scale=-0.25, seed=13), _call(QUERIES, "scale bias", scale=1.0, seed=14),
    # weights that are handed back, and the smallest problems
    _call(SQUARE, "return_weights", seed=15), _call(GROUPED, "return_weights mask", seed=16),
    _call(QUERIES, "return_weights causal", seed=17), _call(ONE, "", seed=18),
    _call(ONE, "mask", seed=19),
    # lengths that are multiples of blocks, and several blocks of them
    _call(EVEN, "", seed=20), _call(EVEN, "causal", seed=21),
    _call(EVEN, "mask", mask="block", seed=22),
    _call(BLOCKS, "", seed=23), _call(BLOCKS, "mask", mask="left_padding", seed=24),
    _call(BLOCKS, "causal", seed=25), _call(BLOCKS, "", "log_normal", seed=26),
    _call(BLOCKS, "mask bias", "log_normal student_t", seed=27),
    # entries at which exponentials over- and underflow
    _call(SQUARE, "", "huge_logits", seed=28), _call(QUERIES, "mask", "huge_logits", seed=29),
    _call(SQUARE, "", "offset", seed=30), _call(EVEN, "", "integers", seed=31),
    _call(SQUARE, "mask", "far_below_zero", seed=32), _call(SQUARE, "", "above_88", seed=33),
    _call(SQUARE, "", "tiny_values", seed=34),
    _call(SQUARE, "mask", mask="with_empty_rows", seed=35),
    # finite numbers in the place of -inf: logits lie beyond any that one would choose
    _call(SQUARE, "mask", "mask_attack", mask="attack", seed=38),
    _call(SQUARE, "mask", "mask_attack_far", mask="attack", seed=39),
    _call(SQUARE, "mask", "mask_attack", mask="attack", seed=43, change=_hidden_above),
    _call(SQUARE, "mask", "mask_attack_far", mask="attack", seed=44, change=_hidden_above),
    _call(SQUARE, "mask scale", "mask_attack_far", mask="attack", scale=2.0**-11, seed=45),
    _call(SQUARE, "mask scale", "mask_attack_far", mask="attack", scale=2.0**-15, seed=46),
    # how arrays lie: broadcast, strided, transposed
    _call(SQUARE, "mask", seed=47, change=partial(broadcast_mask, over="batch")),
    _call(SQUARE, "mask", seed=48, change=partial(broadcast_mask, over="heads")),
    _call(SQUARE, "mask", seed=49, change=partial(broadcast_mask, over="queries")),
    _call(SQUARE, "", seed=50, change=_STRIDED),
    _call(SQUARE, "mask bias", seed=51, change=_STRIDED),
    _call(SQUARE, "", seed=52, change=_TRANSPOSED),
    _call(SQUARE, "mask bias", seed=53, change=_TRANSPOSED),
    # what a hidden key must not let through
    *(_call(QUERIES, "mask", mask="padding", seed=54,
            change=partial(replace_hidden, arrays=(name,), content=content))
      for name in ("key", "value") for content in ("nan", "inf")),
    _call(SQUARE, "scale", scale=0.0, seed=40), _call(ONE_KEY, "", seed=41),
    _call(SQUARE, "mask causal", mask="with_empty_rows", seed=42),
    _call(LONG, "", seed=36), _call(LONG, "mask", seed=37),
)

LAYER_CALLS: tuple[DiagnosticCall, ...] = (
    # layers: whole numbers, whose projections are exact
    *(_call(REMEMBERED_LAYER, "", "integers", seed=seed) for seed in (1, 2, 1)),
    _call(SQUARE_LAYER, "", "integers", flips=True),
    _call(SQUARE_LAYER, "mask", "integers", seed=2, flips=True),
    _call(SQUARE_LAYER, "causal", "integers", seed=3, flips=True),
    _call(WIDE_LAYER, "", "integers", seed=4),
    _call(WIDE_LAYER, "mask causal", "integers", seed=5),
    _call(WIDE_LAYER, "bias", "integers", seed=6),
    _call(GROUPED_LAYER, "", "integers", seed=7),
    _call(GROUPED_LAYER, "causal", "huge_logits", seed=8),
    _call(SQUARE_LAYER, "return_weights", "integers", seed=9),
    _call(SQUARE_LAYER, "return_weights mask", "integers", seed=10),
    _call(SQUARE_LAYER, "return_weights causal", "integers", seed=11),
)

UNCOMMON_CALLS: tuple[DiagnosticCall, ...] = (
    *map(DiagnosticCall, of_aspects(lambda aspect: aspect.panel)),
)
"""Calls with keywords that few functions take, for those that take all keywords of the call."""


MOST_REMEMBERED_ANSWERS = 100_000
"""So many answers of faults are remembered: those of all faults to one panel, some 120 MiB."""


@dataclass(frozen=True, slots=True)
class DiagnosticSetting:
    """All that decides the panel's calls and what answers are held to. Each has one panel."""

    dtype: DType
    precision: Precision
    conventions: tuple[tuple[str, str], ...]
    aspect: Aspect
    kind: Kind
    keywords: frozenset[str]
    limits: Limits
    output_dtype: str
    variants: tuple[str, ...]


class DiagnosticInputs:
    """The calls for subjects of one setting, what answers are held to, and the faults' answers."""

    def __init__(self, bar: ComparisonStandard, dtype: DType) -> None:
        self._bar = bar
        self._calls = tuple(_puttable_calls(bar, dtype))
        self.rulers = tuple(bar.ruler(problem) for problem, _ in self._calls)
        self.poisoned = tuple(is_poisoned(problem) for problem, _ in self._calls)
        self._candidates: dict[str, FaultCandidate] = {}
        self._right: dict[tuple[str, int], bool] = {}

    def put_to(self, subject: Subject) -> tuple[LoggedCall, ...]:
        """Puts every call, in order, to one subject."""
        return tuple(log_call(subject, problem, variant) for problem, variant in self._calls)

    def candidate(self, fault: Fault) -> FaultCandidate:
        """The fault in the place of such a subject. It is put each call once."""
        if fault.name not in self._candidates:
            self._candidates[fault.name] = FaultCandidate(fault, self._bar, self._calls)
        return self._candidates[fault.name]

    @property
    def remembered_count(self) -> int:
        """How many answers of faults the panel remembers."""
        return sum(each.remembered_count for each in self._candidates.values())

    def is_fault_right(self, fault: Fault, index: int) -> bool:
        """Whether the fault answers this call as the definition does; computed once."""
        if (fault.name, index) not in self._right:
            step = self.candidate(fault).answer_call(index)
            is_right = self.rulers[index].is_right_call(step, is_subject=False)
            self._right[fault.name, index] = is_right
        return self._right[fault.name, index]


class Panels(OrderedDict[DiagnosticSetting, DiagnosticInputs]):
    """Keeps a panel for each setting that was met, a dozen in a check.

    The least recently used ones go where more than `most` answers of faults are remembered in all.
    """

    def __init__(self, most: int = MOST_REMEMBERED_ANSWERS) -> None:
        super().__init__()
        self.most = most

    def panel(self, bar: ComparisonStandard, dtype: DType) -> DiagnosticInputs:
        """The panel for a subject at a dtype."""
        # whatever a ruler or a call depends on is part of the key
        declaration = bar.subject.declaration
        place = DiagnosticSetting(
            dtype, bar.precision, tuple(sorted(bar.conventions.items())), bar.aspect,
            declaration.kind, declaration.keywords, declaration.limits, declaration.output_dtype,
            tuple(bar.subject.variants))
        if place not in self:
            self[place] = DiagnosticInputs(bar, dtype)
        # the order is that of use, so that the first is the one that nobody asked for longest
        self.move_to_end(place)
        while len(self) > 1 and sum(each.remembered_count for each in self.values()) > self.most:
            self.popitem(last=False)
        return self[place]


PANELS = Panels()
"""The panels of this process."""


def _puttable_calls(bar: ComparisonStandard, dtype: DType) -> Iterator[tuple[AnyProblem, str]]:
    """The calls that a subject takes, in order: each problem, and the switch to flip or ""."""
    subject = bar.subject
    kind, limits = subject.declaration.kind, subject.declaration.limits
    if kind is Kind.ROTARY:
        for recipe in ROTARY_CALLS:
            rotary_problem = make_rotary(recipe, dtype)
            if not subject.refuses(rotary_problem):
                yield rotary_problem, ""
        return
    calls = (*ATTENTION_CALLS, *UNCOMMON_CALLS)
    if kind is Kind.LAYER:
        calls = (*LAYER_CALLS, *calls)
    # with a variant that compiles, each call would be a program
    switches = [name for name in subject.variants
                if not subject.declaration.variants[name].compiles]
    for call in calls:
        # a call that the subject does not take, or answers by another convention, tells nothing
        if subject.lacks(call.recipe.features) or not _is_common(call.recipe, bar):
            continue
        if not all(part.has_declared_blocks(call.recipe, limits) for part in load_parts("arrays")):
            continue
        if kind is Kind.LAYER and lowering_misfit(call.recipe.sizes, limits):
            continue
        problem = _make_call_problem(call, dtype, limits,
                                     is_layer=kind is Kind.LAYER and call in LAYER_CALLS)
        if not subject.refuses(problem):
            yield problem, ""
            if call.flips:
                yield from ((problem, name) for name in switches)


def _is_common(recipe: Recipe, bar: ComparisonStandard) -> bool:
    """Whether the subject follows the recommended conventions that this recipe depends on."""
    is_grouped = recipe.sizes.Hkv != recipe.sizes.H
    takes_groups = bar.subject.declaration.limits.grouped or bar.conventions.get("grouped") == YES
    if is_grouped and not takes_groups:
        return False
    of_keywords = (name for name, convention in CONVENTIONS.items()
                   if convention.keyword in recipe.features)
    return all(bar.conventions.get(name, RECOMMENDED[name]) == RECOMMENDED[name]
               for name in (*features_that_matter(recipe), *of_keywords))


def features_that_matter(recipe: Recipe) -> tuple[str, ...]:
    """The conventions on which the answer to the recipe's problem depends, in all its rows."""
    sizes, features = recipe.sizes, recipe.features
    # only where diagonals differ, or lengths do, does it matter from which corner one counts
    has_offset = ((sizes.T != sizes.S or bool(COUNTS.keys() & features))
                  and not features.intersection(CACHED))
    matters = {"causal_alignment": bool(FROM_PLACE & features) and has_offset,
               "mask_with_causal": "causal" in features and bool({"mask", "bias"} & features),
               "grouped_heads": 1 < sizes.Hkv < sizes.H}
    return tuple(name for name, does in matters.items() if does)


def _make_call_problem(call: DiagnosticCall, dtype: DType, limits: Limits, *,
                       is_layer: bool) -> AnyProblem:
    """The problem of a call, for a layer or for an attention."""
    if not is_layer:
        problem = make_problem(call.recipe, dtype)
        return call.change(Posed((problem,))).one if call.change else problem
    # a layer's own width and inputs are what the subject takes
    recipe = replace(call.recipe, M=model_width(call.recipe.sizes, limits), inputs=limits.inputs)
    return make_layer(recipe, dtype, limits=limits)
