"""Reads what a manifest says of the modules, the process and the device that a subject needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.requirements import Requirement

from attnspec.core.errors import quoted
from attnspec.core.made_variants import VARIANTS
from attnspec.core.surroundings import DEVICES
from attnspec.spec.fields import Fields
from attnspec.subjects.installed import installed_version

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_modules(fields: Fields) -> str:
    """The field `requires`: names of modules, separated by spaces."""
    names = fields.text("requires", "")
    for name in names.split():
        if not all(part.isidentifier() for part in name.split(".")):
            raise fields.complain("requires", f"should name modules, as in 'onnxruntime mlx.core', not {quoted(name)}.")
    return names


def read_device(fields: Fields) -> str:
    """The kind of device that a library or a subject runs on alone; empty for any. Raises the error of the fields."""
    return fields.one_of("device", DEVICES, "", kind="kind of device")


def read_made(fields: Fields) -> tuple[str, ...]:
    """The variants that attnspec makes itself where it audits a subject. Raises the error of the fields."""
    names = fields.texts("made", ())
    for at, name in enumerate(names):
        if name not in VARIANTS:
            raise fields.error.unknown("variant that attnspec makes", name, VARIANTS,
                                       where=fields.mapping["made"].place_of(at))
    return names


def read_variables(fields: Fields) -> Mapping[str, str]:
    """Environment variables with their values. Raises the error of the fields."""
    for name in fields.mapping:
        if not _VARIABLE.fullmatch(name):
            raise fields.error(f"{quoted(name)} is not a name for an environment variable: letters, digits and _ only.",
                               where=fields.place(name))
    return read_texts(fields)


def read_texts(fields: Fields) -> Mapping[str, str]:
    """Texts by their names. Raises the error of the fields."""
    return {name: fields.text(name) for name in fields.mapping}


def read_faster(subject: Fields, library: Fields, python: str = "") -> Mapping[str, str]:
    """What the subject says or else the library; nothing where the requirement `where` is not met. python: the
    interpreter in which they live, if the manifest names one.

    Raises the error of the fields.
    """
    fields = subject if "faster_with" in subject.mapping else library
    inner = fields.inner("faster_with", "what it is faster with", optional=True)
    inner.only(("variables", "where"))
    variables = read_variables(inner.inner("variables", "the variables", optional=True))
    return variables if variables and _is_met(inner, python) else {}


def _is_met(fields: Fields, python: str) -> bool:
    """Whether `where`, as in `jaxlib>=0.6`, is installed."""
    where = fields.text("where")
    try:
        needed = Requirement(where)
        version = installed_version(needed.name, python)
        return bool(version) and needed.specifier.contains(version, prereleases=True)
    except ValueError:  # that of the requirement, and Python's own at numbers of thousands of digits
        message = f"should be a requirement, as in 'jaxlib>=0.6', not {quoted(where)}."
        raise fields.complain("where", message) from None
