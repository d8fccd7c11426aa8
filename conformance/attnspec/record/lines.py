"""An event as one line of JSON. The name of the event stands first, under `event`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attnspec.ground.errors import RecordError, hint
from attnspec.record.campaign import BlockJudged
from attnspec.record.codec import decode, encode
from attnspec.record.events import Event, ItemFinished, ItemStarted, RunFinished, RunStarted, SubjectKnown
from attnspec.record.power import SubjectPut
from attnspec.record.probed import SubjectProbed

EVENTS: Mapping[str, type[Event]] = {
    "run_started": RunStarted,
    "subject_known": SubjectKnown,
    "item_started": ItemStarted,
    "item_finished": ItemFinished,
    "subject_put": SubjectPut,
    "block_judged": BlockJudged,
    "subject_probed": SubjectProbed,
    "run_finished": RunFinished,
}
NAMES: Mapping[type[Event], str] = {kind: name for name, kind in EVENTS.items()}


def to_line(event: Event) -> str:
    """One line, without the line feed."""
    return json.dumps({"event": NAMES[type(event)], **encode(event)}, ensure_ascii=False, allow_nan=False)


def from_line(line: str) -> Event:
    """The event of a line. Raises RecordError (without a place: the reader adds file and line)."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as problem:
        raise RecordError(f"this line is not JSON ({problem.msg} at column {problem.colno}); "
                          "it may have been cut off or edited.") from None
    if not isinstance(data, dict) or "event" not in data:
        raise RecordError("this line is no event: a JSON object with a member 'event' is expected.")
    name = data.pop("event")
    if name not in EVENTS:
        raise RecordError(f"{name!r} is not a known event.{hint(name, EVENTS)}")
    return decode(EVENTS[name], data)
