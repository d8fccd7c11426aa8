"""Hatchling hook: a real wheel carries the data folders, an editable one reads them from the checkout."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "spec": "attnspec/_data/spec",
    "implementations": "attnspec/_data/implementations",
    "reports/page": "attnspec/_data/reports/page",
}


class Bundle(BuildHookInterface[Any]):
    """Copies spec/, implementations/ and the page's template into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders to a standard build, and to no other."""
        if version == "standard":
            build_data["force_include"] |= CARRIED
