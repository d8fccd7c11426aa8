"""Hatchling's hook: a wheel carries the data folders. An editable install does not: it reads those of the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARRIED = {
    "spec": "attnspec/_data/spec",
    "implementations": "attnspec/_data/implementations",
    "reports/page": "attnspec/_data/reports/page",
}
"""Folder of the checkout: where `attnspec.core.paths` finds it in the wheel."""

_INSTALLED = {"node_modules", "__pycache__"}


class Bundle(BuildHookInterface[Any]):  # type: ignore[misc]  # hatchling ships no types
    """Adds the data folders to a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; `version` is standard or editable."""
        if version == "standard":
            for folder, place in CARRIED.items():
                build_data["force_include"] |= _files(Path(self.root), folder, place)


def _files(root: Path, folder: str, place: str) -> dict[str, str]:
    """Every file of a folder, and its place in the wheel; without what other package managers install there."""
    found = (path.relative_to(root / folder) for path in sorted((root / folder).rglob("*")) if path.is_file())
    return {f"{folder}/{path}": f"{place}/{path}" for path in found if not _INSTALLED & set(path.parts)}
