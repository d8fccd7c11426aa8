"""What is stored: where it lies, what is put to which clause, and how it is computed. No line here knows attnspec."""

from __future__ import annotations

import fnmatch
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from golden import adapter
from golden.digests import digest, digest_of_lines

FOLDER = Path(__file__).parent
PARTS = ("arrays", "expectation", "allowance", "verdict")
"""What each case has a digest of, in the order in which they stand in `cases.json`."""

LAYER = "fault/layer_window_ignored"
"""The layer with the most keywords: mask, bias, causal, window and softcap."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """A subject, the clauses that it is put to, at which dtypes, on how many of the first cases of a trial."""

    subject: str
    clauses: str = "*"
    dtypes: tuple[str, ...] = ()
    cases: int = 3

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The pairs of clause and dtype that apply."""
        for clause in fnmatch.filter(adapter.clause_ids(), self.clauses):
            if not adapter.lacking(self.subject, clause):
                yield from ((clause, dtype) for dtype in self.dtypes or adapter.dtypes())

    def recipes(self, clause: str) -> list[str]:
        """The first cases of a trial at effort quick."""
        return adapter.dealt(self.subject, clause, "quick")[:self.cases]


PUTS = (
    Put("numpy/attention"),  # takes every keyword that attention has
    Put(LAYER, "layers.*"),
    Put(LAYER, "*", ("float32",), cases=1),  # clauses on attention, put to a layer
    Put("numpy/msa", "*", ("float32",), cases=1),  # one input, tied widths: shapes are adapted
    Put("numpy/serving", "lengths.*"),
    Put("numpy/serving", "sinks.*"),
    Put("numpy/serving", "lse.*"),
    Put("numpy/serving", "past.*"),
    Put("numpy/serving", "slopes.*"),
    Put("numpy/serving", "segments.*"),
    Put("numpy/packed", "packed.*"),
    Put("numpy/paged", "paged.*"),
    Put("numpy/decoder", "decoder.*"),
    Put("numpy/invariant", "invariance.*"),
    Put("numpy/rotary", "rotary.*"),
    Put("numpy/training", "gradients.*"),
    Put("fault/grad_param_severed", "gradients.*project*"),  # a layer with a backward pass
    Put("fault/grad_param_severed", "gradients.of_output_bias"),
    Put("numpy/dropout", "dropout.*"),
    Put("sound/backward_recomputed", "gradients.of_sinks"),
    Put("sound/backward_recomputed", "gradients.key_lengths"),
    *(Put(f"fault/{name}", "variants.*") for name in (  # have forms that a framework would make
        "compiled_backward_unmasked", "exported_mask_constant", "mapped_first_entry", "mapped_lengths_of_first",
        "onnx_scale_constant", "recomputed_without_mask")),
    Put("fault/switch_softcap_dropped", "*.switches"),  # has a variant, without which no switch can be tried
)


LONG, OF_LONG = "long double", "float64"
"""What the processor itself makes of exponentials in long double, and the dtype whose truth is worked out in it."""


@cache
def machine() -> dict[str, str]:
    """What the last bits of sums and exponentials depend on: NumPy, its kernels for this processor, its BLAS, and the
    processor, of which two that have the same kernels may round an exponential in long double differently.
    """
    config: Any = np.show_config(mode="dicts")
    return {"numpy": np.__version__, "simd": " ".join(config.get("SIMD Extensions", {}).get("found", ())),
            "blas": _blas(), LONG: _long()}


def _long() -> str:
    exponents = np.linspace(-30, 30, 10_000, dtype=np.longdouble)
    return digest({"exp": np.exp(exponents), "log": np.log(exponents[5_000:])})


def _blas() -> str:
    found = [each for each in threadpool_info() if "numpy" in each["filepath"] and each["user_api"] == "blas"]
    return " ".join(f"{each['internal_api']} {each['version']} {each.get('architecture', '')}" for each in found)


def other_machine(stored: Mapping[str, str], dtype: str) -> str:
    """Why digests of numbers rounded to this dtype cannot be compared here; empty if they can."""
    here = machine()
    differing = [f"{name} is {here.get(name)!r} here and was {was!r}" for name, was in stored.items()
                 if here.get(name) != was and (name != LONG or dtype == OF_LONG)]
    return "; ".join(differing)


def digests_of(subject: str, clause: str, dtype: str, recipe: str) -> str:
    """The digests of one case, in the order of PARTS; or why there are none."""
    case = adapter.Case(subject, clause, dtype, recipe)
    if case.without:
        return case.without
    expected, allowed = case.expectations()
    return " ".join(map(digest, (case.arrays(), expected, allowed, case.verdict())))


def computed(put: Put, clause: str, dtype: str, recipes: Sequence[str]) -> list[str]:
    """The digests of one pair's cases."""
    return [digests_of(put.subject, clause, dtype, recipe) for recipe in recipes]


def key_of(put: Put, clause: str) -> str:
    """The name under which a subject's cases of a clause are stored."""
    return f"{put.subject} {clause}"


def cases() -> Json:
    """Every case of every part, computed.

    The recipes are those that are stored already: they were drawn when sizes were listed, and must fill the same arrays
    for ever. A new clause brings those that it is dealt now.
    """
    kept = read("cases.json")["recipes"]
    recipes: dict[str, list[str]] = {}
    found: dict[str, dict[str, list[str]]] = {}
    for put in PUTS:
        for clause, dtype in put.pairs():
            key = key_of(put, clause)
            if dtype in found.get(key, {}):
                continue
            recipes.setdefault(key, kept.get(key) or put.recipes(clause))
            found.setdefault(key, {})[dtype] = computed(put, clause, dtype, recipes[key])
    return {"machine": machine(), "recipes": recipes, "digests": found}


def sampled(names: Sequence[str], one_in: int) -> list[str]:
    """A fixed sample, spread by the names themselves."""
    return [name for name in names if zlib.crc32(name.encode()) % one_in == 0]


def differences(was: str, now: str, where: str, *, exact: bool = True) -> Iterator[str]:
    """Which digests of a case differ. exact: whether those of rounded numbers are compared, too."""
    before, after = was.split(" "), now.split(" ")
    if len(before) != len(PARTS) or len(after) != len(PARTS):
        if was != now:
            yield f"{where}: {_seen(now)} where {_seen(was)} were recorded"
        return
    for name, old, new in zip(PARTS, before, after, strict=True):
        if old != new and (exact or name == "arrays"):
            yield f"{where}: the {name} differ: {new}, recorded as {old}"


def _seen(digests: str) -> str:
    return "digests" if len(digests.split(" ")) == len(PARTS) else repr(digests)


def draws() -> Json:
    """By subject and clause: digests of all recipes that each effort deals, and of eight that Hypothesis draws."""
    subjects = ("numpy/attention", LAYER, "numpy/msa")
    return {"hypothesis": version("hypothesis"), "recipes": {
        f"{subject} {clause}": drawn_by(subject, clause)
        for subject in subjects for clause in adapter.clause_ids() if not adapter.lacking(subject, clause)}}


def drawn_by(subject: str, clause: str) -> dict[str, str]:
    """The digests of one clause's recipes by effort, and of those that Hypothesis draws at effort quick."""
    efforts = {effort: digest_of_lines(adapter.dealt(subject, clause, effort)) for effort in adapter.efforts()}
    return {**efforts, "hypothesis": digest_of_lines(adapter.drawn(subject, clause, "quick", 8))}


CONVENTIONS: Mapping[str, Mapping[str, str]] = {
    "recommended": {},
    "other diagonal, other heads": {"causal_alignment": "bottom_right", "grouped_heads": "tile"},
    "mask alone": {"mask_with_causal": "mask"},
    "flag alone": {"mask_with_causal": "causal"},
}


def precisions(dtype: str) -> dict[str, Json]:
    """Classes of arithmetic: every grade that the dtype has, and the words that are declared beside one."""
    half = dtype in {"float16", "bfloat16"}
    whole = {"grade": "G4", "accumulate": dtype, "row_sum": dtype}
    return {
        "nothing declared": {},
        **({f"G{grade}": {"grade": f"G{grade}"} for grade in range(5)} if half else {}),
        **({"all in the dtype": whole, "systematic": {"grade": "G0", "systematic": "accumulator"}} if half else {}),
        "flushes": {"flushes_subnormals": True}, "coarse exponential": {"exp_ulps": 20},
        "log-sum-exp": {"logsumexp_roundings": 1},
    }


def bounds() -> Json:
    """Truths and allowances of the recipes that are stored, under classes of arithmetic and conventions that no case
    above has.
    """
    recipes = read("bounds.json")["recipes"]
    return {"machine": machine(), "recipes": recipes, "digests": {
        name: [make(recipe) for recipe in recipes] for name, make in bound_makers().items()}}


def bound_makers() -> dict[str, Callable[[str], str]]:
    """By dtype, class and convention, what computes the digests of a recipe's truth and of its allowances."""
    def maker(dtype: str, words: Json, answers: Mapping[str, str]) -> Callable[[str], str]:
        return lambda recipe: " ".join(map(digest, adapter.bounds(recipe, dtype, words, answers)))

    plain = {f"{dtype}, {name}": maker(dtype, {**words, "reason": "golden"}, {})
             for dtype in adapter.dtypes() for name, words in precisions(dtype).items()}
    held = {f"{dtype}, {name}": maker(dtype, {}, answers)
            for dtype in adapter.dtypes() for name, answers in CONVENTIONS.items()}
    return {**plain, **held}


def ids() -> Json:
    """Ids of clauses, faults and sound formulations, subjects; and of all items of each subject, by effort."""
    own = adapter.own_names()
    return {"clauses": adapter.clause_ids(), "own": own, "subjects": adapter.subject_ids(),
            "items": {effort: items_of(targets_of(adapter.subject_ids(), own), effort, adapter.clause_ids())
                      for effort in ("glance", "quick")}}


def targets_of(subjects: Sequence[str], own: Sequence[str]) -> list[str]:
    """Who is put to every clause that applies; a fault is put to those clauses alone that name it."""
    return [*subjects, *(name for name in own if name.startswith("sound/"))]


def items_of(targets: Sequence[str], effort: str, clauses: Sequence[str]) -> dict[str, str]:
    """By target: how many items it has of these clauses, and their digest."""
    known, found = set(clauses), {target: list[str]() for target in targets}
    for target, clause, dtype in adapter.items(targets, effort):
        if clause in known:
            found[target].append(f"{target}-{clause}-{dtype}")
    return {target: f"{len(items)} {digest_of_lines(items)}" for target, items in found.items()}


def read(name: str) -> Json:
    """A stored file."""
    stored: Json = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return stored


def write(name: str, content: Json) -> None:
    """Store a file, in lines that a diff can show."""
    (FOLDER / name).write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
