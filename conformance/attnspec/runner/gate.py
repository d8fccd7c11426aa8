"""Attention as a pytest test of anybody's own test file: two lines, one item a target, clause and dtype.

`from attnspec import gate`, then `test_attention = gate("mypackage.mine:attend")`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.made_variants import foretold_variants, read_variants
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import HANDED, Item, Plan
from attnspec.core.sizes import foretell_costs, read_all
from attnspec.record.codec import encode
from attnspec.record.outcome import Outcome
from attnspec.runner.environment import one_thread
from attnspec.runner.gate_cost import EFFORT, FOLDERS, SIZES, STRICT
from attnspec.runner.judge import (
    ENGINE,
    Judge,
    clause_of,
    complete_outcome,
    distinct_items,
    format_violation,
    in_short,
    load_engine,
    pronounce_verdict,
)
from attnspec.spec.clause import Clause
from attnspec.subjects.installed import look_in

E = TypeVar("E", DType, Effort)
P = ParamSpec("P")
R = TypeVar("R")

_PASSING = frozenset({Verdict.HELD, Verdict.EXPECTED})
_WITHOUT_VERDICT = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM})


def _told_without_stack(function: Callable[P, R]) -> Callable[P, R]:
    """The function, of whose mistakes in its arguments pytest shows the caller's line and the message alone."""
    @wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except AttnspecError as mistake:
            raise mistake.with_traceback(None) from None

    return told


@_told_without_stack
def gate(
    *targets: str | Callable[..., object],
    profiles: str | Iterable[str] = (),
    clauses: str | Iterable[str] = (),
    dtypes: str | Iterable[str] = (),
    effort: str = "quick",
    seed: int = 0,
    strict: bool = False,
    lift: str = "",
    implementations: str | Path | Iterable[str | Path] = (),
    spec_add: str | Path | Iterable[str | Path] = (),
    deadline: float = 300,
    baseline: str = "",
    python: str = "",
    host: str = "",
    device: str = "",
    memory: float = 0,
    must_take: str | Iterable[str] = (),
    sizes: str | Iterable[str] = (),
    variants: str | Iterable[str] = (),
    engine: str = ENGINE,
) -> Callable[..., None]:
    """A parametrised pytest test, to be assigned to a name that pytest collects, as `test_attention`.

    targets: registered ids (`torch/sdpa`), `package.module:function`, `path/to/file.py:function`, or function objects.
    profiles, clauses, dtypes: names to narrow the run to; empty means all that apply. `+gradients` adds a profile.
    effort: glance, quick, default or thorough, as `attnspec check` has them: the verdict is the same. With no dtypes
    named, quick and default try a sample of the cases at further dtypes than float32 (or the first one that the target
    takes), but for clauses whose verdict depends on the dtype. A glance tries one case of each clause, and looks for no
    causes.
    strict: `should` clauses fail too.  lift: "torch" or "jax" hands over tensors.  deadline: seconds an item may look
    for.  implementations: folders of adapters, as `attnspec init` writes them.  spec_add: files of clauses
    of your own, judged beside the others (docs/writing-a-clause.md).
    baseline: a file of known failures, written by `attnspec check --baseline`. Files are found from where pytest is
    started.  engine: what judges (for tests of attnspec itself).
    python, host, device: where subjects live and their arrays are placed, as the options of `attnspec check`.  memory:
    GiB that a subject may take.
    must_take: what the targets must take, as "causal bias D128 T4096 float16": refusing any of it fails.
    sizes: those that are tried whatever the effort, as "B4 H32 Hkv8 T2048 S2048 D128", or files of them.
    variants: what a framework makes of the function, judged besides, as "compile,export,vmap,checkpoint".
    What is named lives in a process of its own. A function object stays in pytest's, unprotected: if it crashes or
    hangs, it takes pytest with it, and its record says where it lived. Raises UsageError, SpecError, ManifestError or
    TargetError where a name is unknown.
    """
    if not targets:
        raise UsageError("gate needs a target: an id, 'package.module:function', or the function itself.")
    objects = tuple(target_of(target) for target in targets if not isinstance(target, str))
    if objects and (python or host or device):
        raise UsageError("a function object stays in this process, with its arrays on the CPU. For python=, host= and "
                         "device= give its name: 'package.module:function' or 'path/to/file.py:function'.")
    if not 0 < deadline < math.inf:
        raise UsageError(f"a deadline of {deadline} s never passes, or has passed. Give seconds above zero.")
    plan = Plan(
        targets=tuple(dict.fromkeys(map(target_of, targets))), clauses=_texts(clauses), profiles=_texts(profiles),
        dtypes=tuple(_member(DType, "dtype", name) for name in _texts(dtypes)),
        effort=_member(Effort, "effort", effort), seed=seed, strict=strict, lift=lift,
        implementations=_paths(implementations), deadline=deadline,
        baseline=baseline, spec_add=_paths(spec_add), in_process=objects, python=python, host=host,
        device=device, memory=int(memory * 2**30), must_take=" ".join(_texts(must_take)),
        sizes=read_all(_texts(sizes)), variants=read_variants(_texts(variants)))
    look_in(plan.surroundings({}))
    return _test(plan, engine)


def _test(plan: Plan, engine: str) -> Callable[..., None]:
    judge = load_engine(plan, engine=engine)
    saying = dict[str, str]()  # by target that cannot be had: the one test that fails for it, and says why

    @pytest.mark.parametrize("item", [pytest.param(item, id=item.id) for item in distinct_items(judge)])
    def test_attention(item: Item, request: pytest.FixtureRequest) -> None:
        is_had, refused = False, dict[str, str]()
        with suppress(AttnspecError):  # the verdict on the item says it better
            judge.fetch(item.target)  # loads the subject, and with it the threads that are to be limited
            refused, is_had = dict(judge.find_refused(item.target)), True
        with one_thread():
            outcome = _judge_item(judge, item, plan)
        outcome = replace(outcome, refused={**refused, **outcome.refused})  # no card goes with a gate's outcomes
        request.node.user_properties.append(("attnspec", json.dumps(encode(outcome))))
        request.node.user_properties.extend([(STRICT, "yes")] if plan.strict else [])
        folders = [(FOLDERS, json.dumps(plan.implementations))] if plan.implementations else []
        request.node.user_properties.extend(folders)
        if not is_had and saying.setdefault(item.target, item.id) != item.id:
            pytest.skip(f"{item.target} cannot be judged; why says [{saying[item.target]}]")
        _announce(outcome, clause_of(judge.spec, item.clause), strict=plan.strict)

    setattr(test_attention, EFFORT, plan.effort.value)
    setattr(test_attention, SIZES, (*foretell_costs(plan.sizes, plan.deadline), *foretold_variants(plan.variants)))
    return test_attention


def _judge_item(judge: Judge, item: Item, plan: Plan) -> Outcome:
    """The verdict on an item. Who interrupts it while a smaller case is looked for is told the one that fails."""
    failing: list[Outcome] = []
    judge.tell = failing.append
    try:
        return pronounce_verdict(judge, item, plan=plan)
    except KeyboardInterrupt:
        if not failing:
            raise
    clause, failed = clause_of(judge.spec, item.clause), complete_outcome(failing[0], item, plan)
    pytest.exit(format_violation(failed, says=clause.says, where=str(clause.where)), pytest.ExitCode.INTERRUPTED)


def _texts(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _paths(given: str | Path | Iterable[str | Path]) -> tuple[str, ...]:
    return tuple(map(str, (given,) if isinstance(given, str | Path) else given))


def _member(kind: type[E], noun: str, name: str) -> E:
    try:
        return kind(name)
    except ValueError:
        raise UsageError.unknown(noun, name, [member.value for member in kind]) from None


def target_of(target: str | Callable[..., object]) -> str:
    """Names a target as text. A function that its module's name leads to is named by it; any other is handed over."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", ""), getattr(target, "__qualname__", "")
    if getattr(sys.modules.get(module), name, None) is target:
        return f"{module}:{name}"
    return _hand_over_function(target, name.rpartition(".")[2] or type(target).__name__)


def _hand_over_function(function: Callable[..., object], name: str) -> str:
    name = name.strip("<>")
    shelf = sys.modules.setdefault(HANDED, module_from_spec(ModuleSpec(HANDED, loader=None)))
    while getattr(shelf, name, function) is not function:
        name += "_"
    setattr(shelf, name, function)
    return f"{HANDED}:{name}"


def _announce(outcome: Outcome, clause: Clause, *, strict: bool) -> None:
    """Pass, skip or fail. What was not run fails: nothing that did not run counts as passed.

    A violated clause that does not gate (`should`, `may`, or what a baseline could not know) is skipped with its
    sentence, so that it is seen and not counted as passed.
    """
    if outcome.verdict in _PASSING:
        return
    if outcome.verdict in _WITHOUT_VERDICT:
        pytest.skip(in_short(outcome))
    if outcome.verdict is Verdict.NOT_RUN or outcome.does_gate(strict=strict):
        pytest.fail(format_violation(outcome, says=clause.says, where=str(clause.where)), pytrace=False)
    if outcome.change and outcome.is_excused:
        pytest.skip(f"{outcome.change.novelty.value}: {in_short(outcome)}")
    pytest.skip(f"{clause.level.value} clause {in_short(outcome)}")
