"""A run on a cluster: which workers get what, what a lost worker costs, and what is said of a cluster that cannot."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import attnspec
import pytest
from attnspec.cluster import carrier as carrying
from attnspec.cluster.carrier import (
    LOST_CONNECTION,
    ClusterCarrier,
    ClusterWorkers,
    Connection,
    SchedulerLostError,
    resources_for,
)
from attnspec.cluster.worker import ClusterAddress, Task, TaskResult, WorkerAnswer, WorkerQuestion, read_address
from attnspec.core.errors import UsageError
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Item, Plan
from attnspec.record.codec import to_line
from attnspec.record.events import Event, ItemFinished, ItemStarted, RunFinished, SubjectKnown
from attnspec.record.outcome import SubjectCard
from attnspec.record.read import read_events
from attnspec.record.write import put_in_order
from attnspec.runner.jobs import NamedGroups
from attnspec.runner.judge import ENGINE_CLASS, TRIAL_SOURCE, TrialJobs, with_engine
from attnspec.runner.listener import Listener
from attnspec.subjects.installed import note_workers
from attnspec.subjects.registry import registered_subjects
from helpers.commands import Cli
from helpers.outcomes import outcome
from helpers.records import run_started, write_record

ONE, TWO = "tcp://one:1", "tcp://two:2"
FIT = WorkerAnswer(attnspec.__version__, "law", {"numpy": "2.0", "torch": "2.5"},
                   {"torch/sdpa": "", "jax/attention": "jax is not installed."},
                   {"torch/sdpa": "2.5", "jax/attention": ""})
OTHER = WorkerAnswer(attnspec.__version__, "law", {"numpy": "2.1", "jax": "0.5"},
                     {"torch/sdpa": "torch is not installed.", "jax/attention": ""},
                     {"torch/sdpa": "", "jax/attention": "0.5"})
PLAN = Plan(("sound/naive", "sound/eager"), clauses=("attention.shape", "attention.dtype"), effort=Effort.GLANCE,
            dtypes=(DType.FLOAT32,))


@dataclass(slots=True)
class FakeConnection(Connection):
    """A cluster of no processes. told: what its workers answer.  dies: those that die with the first thing they get."""

    told: dict[str, WorkerAnswer | str] = field(default_factory=dict)
    declared: Mapping[str, float] = field(default_factory=dict)
    dies: set[str] = field(default_factory=set)
    part_is: TaskResult | None = None
    tasks: list[Task] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def workers(self) -> Mapping[str, int]:
        return dict.fromkeys(self.told, 1)

    def resources(self) -> Mapping[str, Mapping[str, float]]:
        return dict.fromkeys(self.told, self.declared)

    def ask(self, question: WorkerQuestion, workers: list[str]) -> Mapping[str, WorkerAnswer | str]:  # noqa: ARG002  (Dask's)
        return {address: self.told[address] for address in workers}

    def submit(self, task: Task, key: str, workers: list[str],  # noqa: ARG002  (Dask's)
               resources: Mapping[str, float]) -> Future[TaskResult]:  # noqa: ARG002  (Dask's)
        self.tasks.append(task)
        future: Future[TaskResult] = Future()
        if self.dies & set(workers):
            for address in workers:
                self.told.pop(address, None)
        else:
            future.set_result(self.part_is or judged(task))
        return future

    def result_of(self, future: Future[TaskResult]) -> TaskResult:
        return future.result()

    def withdraw_run(self, run: str, futures: list[Future[TaskResult]]) -> None:  # noqa: ARG002  (Dask's)
        self.left.append(run)


def fake(*told: WorkerAnswer | str, **more: object) -> FakeConnection:
    """A cluster whose workers answer so."""
    answers = dict(zip((ONE, TWO), told, strict=False))
    return FakeConnection(None, ModuleType("distributed"), told=answers, **more)  # type: ignore[arg-type]  # by name


def workforce(connection: Connection, **plan: object) -> ClusterWorkers:
    asked = replace(Plan(()), **plan)  # type: ignore[arg-type]  # fields by name
    return ClusterWorkers(connection, WorkerQuestion(asked, "/here"), "law")


def judged(task: Task) -> TaskResult:
    """What a worker records where all holds."""
    source = TrialJobs(with_engine(task.plan, engine=ENGINE_CLASS, recipe=""))
    jobs = NamedGroups(frozenset(task.groups)).select_jobs(source.items())
    items = [job for job in jobs if isinstance(job, Item)]
    lines = [to_line(event) for item in items for event in (started(item), finished(item))]
    return TaskResult(tuple(lines), seconds=1.0)


def started(job: Item) -> ItemStarted:
    return ItemStarted(job.target, job.clause, job.dtype)


def finished(job: Item) -> ItemFinished:
    return ItemFinished(replace(outcome(Verdict.HELD), subject=job.target, clause=job.clause, dtype=DType(job.dtype)))


@pytest.mark.parametrize(("text", "address"), [
    ("local:4", ClusterAddress(workers=4)), ("tcp://host:8786", ClusterAddress("tcp://host:8786")),
    ("tls://[::1]:8786", ClusterAddress("tls://[::1]:8786"))])
def test_a_cluster_is_read_from_its_address(text: str, address: ClusterAddress) -> None:
    assert read_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["host:8786", "tcp://host", "tcp://host:0", "tcp://host:99999", "local", "local:-1"])
def test_what_is_no_address_is_refused_with_both_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no address of a cluster\. Write tcp://HOST:PORT .* or local:4"):
        read_address(text)


def test_a_cluster_of_no_workers_is_refused(cli: Cli) -> None:
    code, _, said = cli("check", "numpy/attention", "--cluster", "local:0")
    assert code == 2
    assert "local:0 starts 0 workers. Start at least 1 and at most 1,024." in said


def test_without_distributed_the_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, said = cli("check", "numpy/attention", "--cluster", "local:1")
    assert code == 2
    assert said.startswith("attnspec: --cluster needs Dask's distributed scheduler (")
    assert said.endswith("Install it: pip install 'attnspec[cluster]'\n")


@pytest.mark.parametrize(("words", "told"), [
    (("--shard", "1/2"), "--cluster divides the run itself. Leave out --shard."),
    (("-n", "2"), "--cluster says who works. Leave out -n.")])
def test_a_cluster_divides_the_run_alone(cli: Cli, words: tuple[str, ...], told: str) -> None:
    code, _, said = cli("check", "numpy/attention", "--cluster", "local:1", *words)
    assert (code, said) == (2, f"attnspec: {told}\n")


UNFIT: Mapping[str, tuple[tuple[WorkerAnswer | str, ...], str]] = {
    "no workers": ((), r"the scheduler has no workers\. Start some: dask worker ADDRESS\."),
    "no attnspec": (("No module named 'attnspec'.",),
                    r"the worker tcp://one:1 cannot judge \(No module named 'attnspec'\)\. Install attnspec "),
    "another version": ((replace(FIT, version="9"),), r"cannot judge \(it has attnspec 9\)\. Install attnspec "),
    "another spec": ((FIT, replace(FIT, digest="new")),
                     r"the worker tcp://two:2 has the spec new, and here it is law\. Install the same attnspec"),
    "no such folder": ((replace(FIT, absent=("/mine",)),),
                       r"the worker tcp://one:1 has no /mine\. Files and folders that the command names must lie at"),
    "cannot tell": ((replace(FIT, wrong="bad manifest."),), "the worker tcp://one:1 cannot judge: bad manifest."),
    "two releases": ((FIT, replace(FIT, releases={"torch/sdpa": "2.9", "jax/attention": ""})),
                     r"tcp://two:2 has release 2\.9 of the library of torch/sdpa, and tcp://one:1 has 2\.5\. Install"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_workers_that_cannot_judge_are_refused_in_a_sentence(case: str) -> None:
    told, message = UNFIT[case]
    with pytest.raises(UsageError, match=message):
        workforce(fake(*told)).begin()


def test_a_device_needs_workers_that_declare_it() -> None:
    with pytest.raises(UsageError, match=r"no worker declares a GPU, which --device cuda:1 needs\. .* 'GPU=1'"):
        workforce(fake(FIT), device="cuda:1").begin()
    workforce(fake(FIT, declared={"GPU": 1}), device="cuda:1").begin()


@pytest.mark.parametrize(("device", "resources"), [
    ("", {}), ("cpu", {}), ("cuda:1", {"GPU": 1}), ("gpu", {"GPU": 1}), ("tpu", {"TPU": 1})])
def test_a_task_asks_for_the_resource_of_its_device(device: str, resources: Mapping[str, float]) -> None:
    assert resources_for(device) == resources


def test_who_has_the_library_of_a_subject_may_judge_it() -> None:
    force = workforce(fake(FIT, OTHER))
    force.begin()
    assert (force.able_workers("torch/sdpa"), force.able_workers("jax/attention"),
            force.able_workers("sound/naive")) == ((ONE,), (TWO,), (ONE, TWO))
    assert force.why_missing() == {"torch/sdpa": "", "jax/attention": ""}


def test_the_environments_of_all_workers_are_told_as_one() -> None:
    force = workforce(fake(FIT, OTHER))
    force.begin()
    assert force.environment == {"numpy": "2.0, 2.1", "torch": "2.5", "jax": "0.5", "workers": "2"}


def test_what_no_worker_has_is_missing_as_on_one_machine() -> None:
    force = workforce(fake(FIT))
    force.begin()
    with note_workers(force.why_missing()):
        known = registered_subjects()
        assert known["jax/attention"].why_missing == "jax is not installed."
        assert known["torch/sdpa"].why_missing == ""
        assert known["numpy/attention"].why_missing == "no worker knows it."


@dataclass(slots=True)
class Carried:
    """A run on a fake cluster: its events, its listener and what was said."""

    listener: Listener
    events: list[Event]
    said: list[str] = field(default_factory=list)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {item.id: done.outcome.verdict for item, done in self.listener.done_by_job.items()
                if isinstance(item, Item) and isinstance(done, ItemFinished)}


def carry(connection: FakeConnection, monkeypatch: pytest.MonkeyPatch) -> Carried:
    monkeypatch.setattr(carrying, "LOOK_SECONDS", 0.0)
    plan, events = with_engine(PLAN, engine=ENGINE_CLASS, recipe=""), list[Event]()
    source = TrialJobs(plan)
    run = Carried(Listener(source, source.items(), plan, events.append), events)
    ClusterCarrier(connection, workforce(connection), run.said.append).carry_out(
        run.listener, plan, TRIAL_SOURCE, source.items())
    return run


@pytest.fixture
def able() -> WorkerAnswer:
    """A worker that can judge everything."""
    return replace(FIT, missing={}, releases={})


def test_every_item_is_judged_once_by_some_worker(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake(able, able)
    run = carry(cluster, monkeypatch)
    assert set(run.verdicts.values()) == {Verdict.HELD}
    assert len(run.verdicts) == 4
    assert sorted(group for task in cluster.tasks for group in task.groups) == [
        ("sound/eager", "float32"), ("sound/naive", "float32")]


def test_a_task_names_no_other_targets_than_its_own(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake(able)
    carry(cluster, monkeypatch)
    assert [task.plan.targets for task in cluster.tasks] == [("sound/naive",), ("sound/eager",)]


def test_a_part_that_is_told_twice_is_recorded_once(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    run = carry(fake(able), monkeypatch)
    before = list(run.events)
    run.listener.receive_events(before)
    assert run.events == before


def test_what_a_dead_worker_had_is_done_by_one_that_comes(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake(able, dies={ONE})
    monkeypatch.setattr(FakeConnection, "workers", come(cluster, able))
    run = carry(cluster, monkeypatch)
    assert set(run.verdicts.values()) == {Verdict.HELD}
    assert run.said == [] or run.said[0].startswith("no worker is left that can judge sound/naive. The run waits")


def come(cluster: FakeConnection, answer: WorkerAnswer) -> object:
    """The list of workers, where another comes once the first has died."""
    def workers(_: FakeConnection) -> Mapping[str, int]:
        if not cluster.told:
            cluster.told[TWO] = answer
        return dict.fromkeys(cluster.told, 1)

    return workers


def test_where_no_worker_comes_the_rest_is_given_up(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "STUCK_SECONDS", 0.1)
    run = carry(fake(able, dies={ONE}), monkeypatch)
    assert set(run.verdicts.values()) == {Verdict.NOT_RUN}
    assert run.said == ["no worker is left that can judge sound/naive. The run waits for one, 0 seconds."]
    [reason] = {done.outcome.reason for done in run.listener.done_by_job.values() if isinstance(done, ItemFinished)}
    assert reason == "no worker of the cluster was left that could judge it"


def test_a_worker_that_comes_and_is_not_fit_gets_nothing(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake(able, dies={ONE})
    monkeypatch.setattr(FakeConnection, "workers", come(cluster, replace(able, version="9")))
    monkeypatch.setattr(carrying, "STUCK_SECONDS", 0.1)
    run = carry(cluster, monkeypatch)
    assert set(run.verdicts.values()) == {Verdict.NOT_RUN}
    assert [line for line in run.said if "It is given nothing to do." in line] == [
        f"the worker {TWO} cannot judge (it has attnspec 9). Install attnspec {attnspec.__version__} in its "
        "environment. It is given nothing to do."]


def test_what_no_worker_can_judge_is_given_up_with_the_reason(able: WorkerAnswer,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    run = carry(fake(replace(able, missing={"sound/naive": "there is no file."})), monkeypatch)
    lost = [done.outcome for done in run.listener.done_by_job.values() if isinstance(done, ItemFinished)
            and done.outcome.verdict is Verdict.NOT_RUN]
    assert {each.subject for each in lost} == {"sound/naive"}
    assert {each.reason for each in lost} == {"there is no file."}


def test_a_part_without_a_result_says_why(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    run = carry(fake(able, part_is=TaskResult(wrong="its worker failed.", defects=("Traceback",))), monkeypatch)
    assert set(run.verdicts.values()) == {Verdict.NOT_RUN}
    assert run.listener.defects == ["Traceback"]


def test_an_interruption_withdraws_what_is_not_done(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    cluster = fake(able, dies={ONE})
    monkeypatch.setattr("attnspec.cluster.carrier.time.sleep", interrupted)
    run = carry(cluster, monkeypatch)
    assert run.listener.is_interrupted
    assert len(cluster.left) == 1
    assert run.verdicts == {}


def test_a_scheduler_that_is_lost_costs_what_is_not_done(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake(able)

    def workers(_: FakeConnection) -> Mapping[str, int]:
        if cluster.tasks:
            raise SchedulerLostError(LOST_CONNECTION)
        return {ONE: 1}

    monkeypatch.setattr(FakeConnection, "workers", workers)
    monkeypatch.setattr(carrying, "TASKS_AHEAD", 1)
    run = carry(cluster, monkeypatch)
    assert run.verdicts == {"sound/naive-attention.shape-float32": Verdict.HELD,
                            "sound/naive-attention.dtype-float32": Verdict.HELD,
                            "sound/eager-attention.shape-float32": Verdict.NOT_RUN,
                            "sound/eager-attention.dtype-float32": Verdict.NOT_RUN}


class KilledWorker(Exception):  # noqa: N818  (Dask's name)
    """As Dask's."""


class FutureCancelledError(Exception):
    """As Dask's."""


@pytest.mark.parametrize(("problem", "told"), [
    (KilledWorker(), "workers died at it again and again, and Dask gave it up."),
    (FutureCancelledError(), "the connection to the scheduler was lost."),
    (ValueError("no room\nat all"), "its worker failed: ValueError: no room.")])
def test_a_task_that_fails_says_why_in_a_sentence(problem: Exception, told: str) -> None:
    distributed, future = ModuleType("distributed"), Future[str]()
    distributed.KilledWorker = KilledWorker  # type: ignore[attr-defined]  # a stand-in
    distributed.client = ModuleType("client")  # type: ignore[attr-defined]  # as above
    distributed.client.FutureCancelledError = FutureCancelledError
    future.set_exception(problem)
    assert Connection(None, distributed).result_of(future) == TaskResult(wrong=told)


def test_short_pairs_are_dealt_several_at_a_time(able: WorkerAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("naive", "eager", "online_blocks", "fused_blocks", "finite_minimum_bias", "padded_tiles", "split_keys")
    monkeypatch.setattr(sys.modules[__name__], "PLAN", replace(PLAN, targets=tuple(f"sound/{each}" for each in names)))
    cluster = fake(able)
    carry(cluster, monkeypatch)
    assert [len(task.groups) for task in cluster.tasks][:3] == [1, 1, 3]


def test_a_record_is_put_in_the_order_of_its_plan(tmp_path: Path) -> None:
    header, footer = run_started(), RunFinished("2026", 1.0, {}, 0)
    jobs = [Item("b/two", "core.shape", "float32"), Item("a/one", "core.shape", "float32")]
    cards = [SubjectKnown(SubjectCard(job.target, "", "", "", "", "", {}, {}, {}, ())) for job in jobs]
    events = [(started(job), card, finished(job)) for job, card in zip(jobs, cards, strict=True)]
    path = write_record(tmp_path / "run.jsonl", header, cards[0], *events[1], events[0][0], events[0][2], footer)
    put_in_order(path, [events[0][2], events[1][2]])
    assert [event for _, event in read_events(path)] == [header, *events[0], *events[1], footer]


def test_a_record_that_is_no_file_is_left_as_it_was_written() -> None:
    put_in_order(Path("/dev/null"), [])
