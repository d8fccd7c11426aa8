"""What the workers of the `attnspec` command run: one test, parametrised over the jobs of the plan's source of jobs.

Not for use by hand: `attnspec.gate` makes the same items of the engine in anybody's test file.
"""

from __future__ import annotations

import functools
import gc
import json
from typing import Any

import pytest

from attnspec.core.errors import AttnspecError
from attnspec.core.plan import Job
from attnspec.record.codec import encode, to_line
from attnspec.runner.guard import NAME, Guard
from attnspec.runner.jobs import JobSource, source_of

_sent: dict[str, str] = {}  # the card of each subject, as this worker last reported it


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a job, with the job's id."""
    only = frozenset(json.loads(str(metafunc.config.getoption("attnspec_only"))))
    items = [job for job in _source(metafunc.config).items() if not only or job.id in only]
    metafunc.parametrize("job", [pytest.param(job, id=job.id) for job in items])


def test_job(job: Job, request: pytest.FixtureRequest) -> None:
    """Carry out the job; its end and the subject's card travel home in `user_properties`."""
    source = _source(request.config)
    request.node.user_properties.append(("attnspec", to_line(source.carry_out(job))))
    _settle()
    _send_card(source, job.target, request.node)


@functools.cache
def _source(config: pytest.Config) -> JobSource[Any]:
    guard = config.pluginmanager.get_plugin(NAME)
    return source_of(config, guard.drop_crumb if isinstance(guard, Guard) else lambda _: None)


@functools.cache
def _settle() -> None:
    """What the first job has imported stays: to look for garbage in it again and again took a twentieth of all time."""
    gc.freeze()


def _send_card(source: JobSource[Any], target: str, node: pytest.Item) -> None:
    try:
        card = source.card(target)
    except AttnspecError:  # the subject cannot be had: its outcomes say why
        return
    text = json.dumps(encode(card)) if card else ""
    if _sent.get(target, "") != text:
        _sent[target] = text
        node.user_properties.append(("attnspec-card", text))
