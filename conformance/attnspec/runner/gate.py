"""Makes a pytest test of attention, with one item per target, clause and dtype.

A user writes `from attnspec import gate` and `test_attention = gate("mypackage.mine:attend")` in a
test file. The pytest plugin prints what a gate costs before it runs: the number of items, and the
seconds of the last run from pytest's cache. At the end of the session the plugin prints what the
subjects refuse, and whatever else no verdict says.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from attnspec.core.errors import AttnspecError, UsageError
from attnspec.core.forms import foretold_variants, read_variants
from attnspec.core.keyword import GRADIENTS_POOL
from attnspec.core.nouns import DType, Effort, Novelty, Verdict
from attnspec.core.plan import HANDED, Item, Plan, is_left_out
from attnspec.core.sizes import foretell_costs, read_all
from attnspec.record.codec import encode
from attnspec.record.outcome import Outcome
from attnspec.runner.judge import (
    ENGINE_CLASS,
    Judge,
    clause_of,
    complete_outcome,
    distinct_items,
    format_violation,
    load_engine,
    pronounce_verdict,
    summarise_outcome,
)
from attnspec.runner.session import one_thread
from attnspec.spec.clause import Clause
from attnspec.subjects.installed import look_in

E = TypeVar("E", DType, Effort)
P = ParamSpec("P")
R = TypeVar("R")

_PASSING_VERDICTS = frozenset({Verdict.HELD, Verdict.EXPECTED})
_UNDECIDED_VERDICTS = frozenset({Verdict.INAPPLICABLE, Verdict.NO_CLAIM})


def _without_stack(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function; pytest shows its errors by the caller's line and the message alone."""
    @wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except AttnspecError as mistake:
            raise mistake.with_traceback(None) from None

    return quiet


@_without_stack
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
    engine: str = ENGINE_CLASS,
) -> Callable[..., None]:
    """Makes a parametrised pytest test, to be assigned to a name such as `test_attention`.

    targets: registered ids (`torch/sdpa`), `package.module:function`, `path/to/file.py:function`,
    or function objects.
    profiles, clauses, dtypes: names that narrow the run; empty means all that apply, and
    `+gradients` adds a profile.
    effort: glance, quick, default or thorough, as for `attnspec check`; the verdict is the same.
    With no dtypes named, quick and default try only a sample of the cases at dtypes other than
    float32 (or the first dtype that the target takes), except for clauses whose verdict depends on
    the dtype.  A glance tries one case of each clause and searches for no causes.

    strict: `should` clauses fail too.
    lift: "torch" or "jax" passes tensors to the function.
    deadline: seconds that an item may take.
    implementations: folders of adapters, as `attnspec init` writes them.
    spec_add: files of your own clauses, judged beside the others (docs/writing-a-clause.md).
    baseline: a file of known failures, written by `attnspec check --baseline`.
    engine: the class that judges (for tests of attnspec itself).
    Paths are relative to where pytest is started.

    python, host, device: where subjects run and where their arrays lie, as for `attnspec check`.
    memory: GiB that a subject may take.
    must_take: what the targets must take, as "causal bias D128 T4096 float16"; a target that
    refuses any of it fails.
    sizes: sizes that are tried at any effort, as "B4 H32 Hkv8 T2048 S2048 D128", or files of such
    sizes.
    variants: what a framework makes of the function, judged in addition, as
    "compile,export,vmap,checkpoint".

    A target that is given by name runs in a process of its own. A function object runs in pytest's
    process, unprotected: if it crashes or hangs, so does pytest, and its record says where it ran.
    Raises UsageError, SpecError, ManifestError or TargetError where a name is unknown.
    """
    if not targets:
        raise UsageError(
            "gate needs a target: an id, 'package.module:function', or the function itself.")
    objects = tuple(target_of(target) for target in targets if not isinstance(target, str))
    if objects and (python or host or device):
        raise UsageError("a function object stays in this process, with its arrays on the CPU. For python=, host= and "
                         "device= give its name: 'package.module:function' or 'path/to/file.py:function'.")
    if not 0 < deadline < math.inf:
        raise UsageError(
            f"a deadline of {deadline} s never passes, or has passed. Give seconds above zero.")
    plan = Plan(targets=tuple(dict.fromkeys(map(target_of, targets))), clauses=_as_texts(clauses),
                profiles=_as_texts(profiles),
                dtypes=tuple(_member_named(DType, "dtype", name) for name in _as_texts(dtypes)),
                effort=_member_named(Effort, "effort", effort), seed=seed, strict=strict,
                lift=lift, implementations=_as_paths(implementations), deadline=deadline,
                baseline=baseline, spec_add=_as_paths(spec_add), in_process=objects, python=python,
                host=host, device=device, memory=int(memory * 2**30),
                must_take=" ".join(_as_texts(must_take)), sizes=read_all(_as_texts(sizes)),
                variants=read_variants(_as_texts(variants)))
    look_in(plan.surroundings({}))
    return _make_test(plan, engine)


def _make_test(plan: Plan, engine: str) -> Callable[..., None]:
    judge = load_engine(plan, engine=engine)
    # by target that cannot be loaded: the one test that fails for it, and says why
    explaining_items = dict[str, str]()

    @pytest.mark.parametrize("item",
                             [pytest.param(item, id=item.id) for item in distinct_items(judge)])
    def test_attention(item: Item, request: pytest.FixtureRequest) -> None:
        is_loaded, refused = False, dict[str, str]()
        with suppress(AttnspecError):  # the verdict on the item says it better
            # loads the subject, and with it the threads that are to be limited
            judge.fetch(item.target)
            refused, is_loaded = dict(judge.find_refused(item.target)), True
        with one_thread():
            outcome = _judge_item(judge, item, plan)
        # no card goes with a gate's outcomes
        outcome = replace(outcome, refused={**refused, **outcome.refused})
        request.node.user_properties.append(("attnspec", json.dumps(encode(outcome))))
        if plan.strict:
            request.node.user_properties.append((STRICT_PROPERTY, "yes"))
        if plan.implementations:
            request.node.user_properties.append(
                (FOLDERS_PROPERTY, json.dumps(plan.implementations)))
        if not is_loaded and explaining_items.setdefault(item.target, item.id) != item.id:
            pytest.skip(
                f"{item.target} cannot be judged; why says [{explaining_items[item.target]}]")
        _announce_outcome(outcome, clause_of(judge.spec, item.clause), strict=plan.strict)

    setattr(test_attention, EFFORT_ATTRIBUTE, plan.effort.value)
    setattr(test_attention, SIZES_ATTRIBUTE,
            (*foretell_costs(plan.sizes, plan.deadline), *foretold_variants(plan.variants)))
    return test_attention


def _judge_item(judge: Judge, item: Item, plan: Plan) -> Outcome:
    """Returns the verdict on an item. If the user interrupts while a failing case is being made
    smaller, pytest ends with the failure as it is known so far.
    """
    failing: list[Outcome] = []
    judge.tell = failing.append
    try:
        return pronounce_verdict(judge, item, plan=plan)
    except KeyboardInterrupt:
        if not failing:
            raise
    clause, failed = clause_of(judge.spec, item.clause), complete_outcome(failing[0], item, plan)
    pytest.exit(format_violation(failed, says=clause.says, where=str(clause.where)),
                pytest.ExitCode.INTERRUPTED)


def _as_texts(names: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    return tuple(names)


def _as_paths(paths: str | Path | Iterable[str | Path]) -> tuple[str, ...]:
    if isinstance(paths, str | Path):
        return (str(paths),)
    return tuple(map(str, paths))


def _member_named(kind: type[E], noun: str, name: str) -> E:
    try:
        return kind(name)
    except ValueError:
        raise UsageError.unknown(noun, name, [member.value for member in kind]) from None


def target_of(target: str | Callable[..., object]) -> str:
    """Names a target as text, also a function that no module's name leads to."""
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


def _announce_outcome(outcome: Outcome, clause: Clause, *, strict: bool) -> None:
    """Lets the pytest item pass, skip or fail, as the outcome says.

    An item that was not run fails: nothing that did not run counts as passed. A violated clause
    that does not gate (`should`, `may`, or a failure that a baseline could not know) is skipped
    with its sentence, so that the user sees it and it does not count as passed.
    """
    if outcome.verdict in _PASSING_VERDICTS:
        return
    if outcome.verdict in _UNDECIDED_VERDICTS:
        pytest.skip(summarise_outcome(outcome))
    if outcome.verdict is Verdict.NOT_RUN or outcome.does_gate(strict=strict):
        pytest.fail(format_violation(outcome, says=clause.says, where=str(clause.where)),
                    pytrace=False)
    if outcome.change and outcome.is_excused:
        pytest.skip(f"{outcome.change.novelty.value}: {summarise_outcome(outcome)}")
    pytest.skip(f"{clause.level.value} clause {summarise_outcome(outcome)}")


SECONDS_KEY = "attnspec/gates"
"""Where pytest's cache keeps the seconds of each gate, by the node id of its test function."""

EFFORT_ATTRIBUTE = "attnspec_effort"
"""The attribute of a gate's test function that says how hard it looks."""

SIZES_ATTRIBUTE = "attnspec_sizes"
"""The attribute of a gate's test function that says what its named sizes and variants cost."""

STRICT_PROPERTY = "attnspec-strict"
"""The property that items of a strict gate have in their report."""

FOLDERS_PROPERTY = "attnspec-folders"
"""The property of an item that names the folders of further implementations, as JSON."""

# ids of items
_ITEM_ID = re.compile(rf"[^\[]+\[.+-[a-z_]+\.\w+-(?:{'|'.join(dtype.value for dtype in DType)})\]")


class GateCost:
    """A pytest plugin that prints what gates cost. Every pytest session loads it, so it imports no
    framework.
    """

    def __init__(self, config: pytest.Config) -> None:
        # absent under `-p no:cacheprovider`
        self._cache: pytest.Cache | None = getattr(config, "cache", None)
        self._seconds_spent: dict[str, float] = {}
        self._is_told = False
        self._refused_by_subject: dict[str, dict[str, None]] = {}  # by subject, what it refuses
        # by subject, why no gradients were judged; "" where some were
        self._gradients: dict[str, Counter[str]] = {}
        # by subject, its listed failures that are none any more
        self._mended_counts: Counter[str] = Counter()
        # by gate and subject, why nothing was judged; "" if some was
        self._unjudged_reasons: dict[tuple[str, str], str] = {}

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Returns lines that say how many items each gate has, and how long they took."""
        efforts, ids, lines_of_sizes = dict[str, str](), list[str](), dict[str, None]()
        for item in items:
            function = getattr(item, "function", None)
            if effort := getattr(function, EFFORT_ATTRIBUTE, ""):
                efforts[_gate_of_item(item.nodeid)] = effort
                ids.append(item.nodeid)
                lines_of_sizes.update(dict.fromkeys(getattr(function, SIZES_ATTRIBUTE, ())))
        return [*self._cost_lines(ids, efforts), *lines_of_sizes]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:  # noqa: ANN401  (xdist has no types)
        """Prints the same lines under xdist, once a run; its controller knows only the ids."""
        reporter = node.config.pluginmanager.get_plugin("terminalreporter")
        if reporter and not self._is_told:
            self._is_told = True
            for line in self._cost_lines([each for each in ids if _ITEM_ID.fullmatch(each)], {}):
                reporter.write_line(line)

    def _cost_lines(self, ids: Iterable[str], efforts: Mapping[str, str]) -> Iterator[str]:
        known = self._cache.get(SECONDS_KEY, {}) if self._cache else {}
        for gate, count in Counter(map(_gate_of_item, ids)).items():
            how = f" at effort {efforts[gate]}" if gate in efforts else ""
            took = "how long they take is measured now and told the next time"
            if gate in known:
                took = f"some {known[gate]:.0f} s of work, as last time"
            yield f"attnspec gate {gate}: {count} items{how}; {took}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up the seconds of gates' items. Under xdist, this hook receives the reports of the
        workers, too.
        """
        if any(name == "attnspec" for name, _ in report.user_properties):
            gate = _gate_of_item(report.nodeid)
            self._seconds_spent[gate] = self._seconds_spent.get(gate, 0.0) + report.duration
            self._note_outcome(gate,
                               json.loads(next(str(text) for name, text in report.user_properties
                                               if name == "attnspec")))

    def _note_outcome(self, gate: str, outcome: Mapping[str, Any]) -> None:
        """Notes what pytest's own summary does not show of an item's verdict."""
        subject, change = str(outcome["subject"]), outcome.get("change") or {}
        why = str(outcome["reason"]) if outcome["verdict"] == Verdict.INAPPLICABLE.value else ""
        if why == "" or (gate, subject) not in self._unjudged_reasons:
            self._unjudged_reasons[gate, subject] = why
        self._mended_counts[subject] += change.get("novelty") == Novelty.MENDED.value
        theme = str(outcome["clause"]).partition(".")[0]
        if theme == GRADIENTS_POOL and not is_left_out(str(outcome["reason"])):
            self._gradients.setdefault(subject, Counter())[why] += 1
        if refused := outcome.get("refused"):
            self._refused_by_subject.setdefault(subject, {}).update(dict.fromkeys(refused))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401  (pytest does not publish its type)
        """Prints what the verdicts of a green run do not say.

        That is: what subjects refuse, subjects of which no gradients were judged, lists of known
        failures that need renewal, and gates that judged nothing.
        """
        for subject, refused in self._refused_by_subject.items():
            terminalreporter.write_line(f"attnspec: {subject} refuses {', '.join(refused)}")
        for subject, reasons in self._gradients.items():
            if "" not in reasons:
                # at a dtype that it does not take the reason is another one
                [(why, _)] = reasons.most_common(1)
                terminalreporter.write_line(
                    f"attnspec: gradients of {subject} were not judged: {why}")
        for (gate, subject), why in self._unjudged_reasons.items():
            if why:
                terminalreporter.write_line(
                    f"attnspec: {gate} judged nothing of {subject}, and is no gate: {why}")
        for subject, number in self._mended_counts.items():
            if number:
                terminalreporter.write_line(
                    f"attnspec: {number} listed failures of {subject} are mended: renew the "
                    "list with attnspec check --update-baseline")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails the session if a gate judged nothing, and stores the seconds of the items."""
        if any(self._unjudged_reasons.values()) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._cache and self._seconds_spent:
            self._cache.set(SECONDS_KEY,
                            {**self._cache.get(SECONDS_KEY, {}), **self._seconds_spent})


def _gate_of_item(nodeid: str) -> str:
    return nodeid.partition("[")[0]
