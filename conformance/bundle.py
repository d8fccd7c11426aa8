"""Hatchling's hook: a wheel carries the data folders. An editable install does not: it reads those of the checkout."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "spec": "attnspec/_data/spec",
    "implementations": "attnspec/_data/implementations",
    "reports/page": "attnspec/_data/reports/page",
}
"""Folder of the checkout: where `attnspec.core.paths` finds it in the wheel."""


class Bundle(BuildHookInterface[Any]):  # type: ignore[misc]  # hatchling ships no types
    """Adds the data folders to a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; `version` is standard or editable."""
        if version == "standard":
            build_data["force_include"] |= CARRIED
