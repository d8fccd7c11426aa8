"""What the workers of the `attnspec` command run: one test, parametrised over the items of the plan.

Not for use by hand: `attnspec.gate` makes the same items in anybody's test file.
"""

from __future__ import annotations

import functools
import json

import pytest

from attnspec.ground.errors import AttnspecError
from attnspec.ground.plan import Item
from attnspec.record.codec import encode
from attnspec.runner.announce import announce
from attnspec.runner.guard import NAME, Guard
from attnspec.runner.judge import Judge, clause_of, docket, pronounce, summon
from attnspec.runner.plans import plan_of

_sent: dict[str, str] = {}  # the card of each subject, as this worker last reported it


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test an item, with the item's id."""
    items = docket(_judge(metafunc.config))
    metafunc.parametrize("item", [pytest.param(item, id=item.id) for item in items])


def test_item(item: Item, request: pytest.FixtureRequest) -> None:
    """Judge the item; the outcome and the subject's card travel home in `user_properties`."""
    judge, plan = _judge(request.config), plan_of(request.config)
    outcome = pronounce(judge, item, plan=plan, recipe=request.config.getoption("attnspec_recipe") or "")
    request.node.user_properties.append(("attnspec", json.dumps(encode(outcome))))
    _send_card(judge, item.target, request.node)
    announce(outcome, clause_of(judge.spec, item.clause), strict=plan.strict)


@functools.cache
def _judge(config: pytest.Config) -> Judge:
    guard = config.pluginmanager.get_plugin(NAME)
    breadcrumb = guard.drop_crumb if isinstance(guard, Guard) else lambda _: None
    return summon(plan_of(config), court=config.getoption("attnspec_court"), breadcrumb=breadcrumb)


def _send_card(judge: Judge, target: str, node: pytest.Item) -> None:
    try:
        card = json.dumps(encode(judge.card(target)))
    except AttnspecError:  # the subject cannot be had: its outcomes say why
        return
    if _sent.get(target) != card:
        _sent[target] = card
        node.user_properties.append(("attnspec-card", card))
