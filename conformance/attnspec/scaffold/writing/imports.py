"""The imports of an adapter, sorted as isort and ruff have them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from attnspec.core.forms import ROTARY
from attnspec.core.keywords import KEYWORDS
from attnspec.scaffold.form import TEMPLATES, CallForm
from attnspec.scaffold.location import LOADING_IMPORTS, write_loading

_STANDARD_IMPORTS: Mapping[str, str] = {
    "Callable": "from collections.abc import Callable", "Mapping": "from collections.abc import Mapping",
    "partial": "from functools import partial", "SimpleNamespace": "from types import SimpleNamespace",
    "Any": "from typing import Any", "patch": "from unittest.mock import patch", "sys": "import sys"}
_OTHER_IMPORTS: Mapping[str, str] = {
    "equinox": "import equinox", "haiku": "import haiku", "nnx": "from flax import nnx", "keras": "import keras",
    "nn": "from torch import nn"}
_OWN_NAMES = frozenset({
    "attend", "rotate", "x", "query", "key", "value", *KEYWORDS, *ROTARY, "layer", "output", "answer", "destination",
    "config", "Tensor", "Array", "np", "torch", "jax", "jnp", "PARTS"})


def find_alias(form: CallForm) -> str:
    """The name under which the callee is imported: its own, unless the adapter has that name for something else."""
    top, dot, rest = form.name.partition(".")
    return f"theirs{dot}{rest}" if top in _OWN_NAMES else form.name


def write_imports(form: CallForm, used: frozenset[str], folder: str = "") -> list[list[str]]:
    """By section: the future, Python's own, installed ones, and those that lie where the user stands.

    folder: what the callee's own modules are imported from, or the file that is loaded by its path, as one goes there
    from the adapter's folder; empty where that needs no saying.
    """
    known = {**_STANDARD_IMPORTS, **_OTHER_IMPORTS, **TEMPLATES[form.lift].imports}
    top = form.name.partition(".")[0]
    statements = [known[name] for name in known if name in used and name != top]
    statements.append(f"from {form.module} import {top}{' as theirs' if top in _OWN_NAMES else ''}")
    classes = [*form.holders.values(), *([f"{form.config.module}:{form.config.name}"] if form.config else [])]
    classes += [form.kept_cache.class_path] if form.kept_cache and form.kept_cache.class_path else []
    statements += [f"from {module} import {name}" for module, _, name in (each.partition(":") for each in classes)
                   if name]
    own = form.module.partition(".")[0] if folder else ""
    is_file = folder.endswith(".py")
    statements += LOADING_IMPORTS if is_file else ["import sys", "from pathlib import Path"] if folder else []
    sections = {line: _find_section(line, own) for line in statements}
    standard, installed, here = (_sort_statements([line for line in statements if sections[line] == each])
                                 for each in ("standard", "installed", "here"))
    if folder:  # imports have to follow it, which linters dislike
        place = f'(Path(__file__).parent / "{folder}").resolve()'
        begin = write_loading(form.module, place) if is_file else [f"sys.path.insert(0, str({place}))"]
        here = [*begin, "", *(f"{line}  # noqa: E402" for line in here)]
    return [each for each in (["from __future__ import annotations"], standard, installed, here) if each]


def _find_section(statement: str, own: str) -> str:
    """As ruff tells them apart: what lies in the working directory, or in its `src`, is the user's own.

    own: the package that needs a folder of its own on the path.
    """
    root = _find_module(statement).partition(".")[0]
    if root == own:
        return "here"
    if root in sys.stdlib_module_names:
        return "standard"
    places = [folder / name for folder in (Path.cwd(), Path.cwd() / "src") for name in (root, f"{root}.py")]
    return "here" if any(place.exists() for place in places) else "installed"


def _find_module(statement: str) -> str:
    return statement.split()[1]


def _sort_statements(statements: Iterable[str]) -> list[str]:
    """`import` before `from`, modules in order, the names of one module together."""
    whole = {line for line in statements if line.startswith("import ")}
    names: dict[str, set[str]] = {}
    for line in statements:
        if line not in whole:
            names.setdefault(_find_module(line), set()).add(line.partition(" import ")[2])
    named = {module: ", ".join(sorted(names[module], key=_rank_name)) for module in sorted(names, key=str.lower)}
    return [*sorted(whole, key=str.lower), *(f"from {module} import {listed}" for module, listed in named.items())]


def _rank_name(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)
