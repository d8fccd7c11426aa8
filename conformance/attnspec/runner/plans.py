"""A plan on its way through pytest's command line and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attnspec.ground.errand import Errand
from attnspec.ground.errors import UsageError
from attnspec.ground.plan import Plan
from attnspec.record.codec import decode, encode
from attnspec.runner.docket import Breadcrumb, Docket, open_docket

if TYPE_CHECKING:
    import pytest


def plan_text(plan: Plan) -> str:
    """The plan as one argument."""
    return json.dumps(encode(plan))


def plan_of(config: pytest.Config) -> Plan:
    """The plan that this pytest was started with."""
    text = config.getoption("attnspec_plan")
    if not text:
        raise UsageError("only the attnspec command runs runner/suite.py; in a test file of yours, use attnspec.gate.")
    return decode(Plan, json.loads(text))


def docket_of(config: pytest.Config, breadcrumb: Breadcrumb) -> Docket[Any]:
    """The docket that this pytest was started with."""
    return open_docket(str(config.getoption("attnspec_docket")), plan_of(config), breadcrumb=breadcrumb)


def errands_of(config: pytest.Config, docket: Docket[Any]) -> tuple[Errand, ...]:
    """The errands of the docket that belong into processes such as this pytest was started in."""
    process = json.loads(str(config.getoption("attnspec_process")))
    return tuple(errand for errand in docket.items() if docket.surroundings(errand) == process)
