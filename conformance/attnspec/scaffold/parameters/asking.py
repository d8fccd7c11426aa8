"""What only running somebody's code tells: what an initialiser makes, and what a constructor asks a config for. What is
run is text that is written here and loaded where the callee lives.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnspec.core.nouns import DType
from attnspec.scaffold.there import CalleeProcess
from attnspec.subjects.call import Call, ReturnedTree
from attnspec.subjects.callee import Hosted
from attnspec.subjects.subject import SubjectDied, SubjectRaised

_ASKER_NAME = "ask"

_INITIALISER_TEXT = """\
import numpy as np
{imports}
from {module} import {top} as theirs


def {asked}(query, key, value):
    return theirs{rest}({given})
"""

_CONFIG_TEXT = """\
import re

import numpy as np
from {module} import {top} as theirs

KNOWN = {known!r}
MOST = {most}  # fields whose names say nothing that a constructor may ask for


class Asked:
    def __init__(self, unknown):
        self.fields, self.unknown, self.missed = {{}}, unknown, ""

    def answer(self, name):
        value = KNOWN.get(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_"))
        if value is None and name not in self.unknown:
            self.missed = name
            raise KeyError(name)
        self.fields[name] = np.ones(1)
        return False if value is None else value


class Attributes:
    def __init__(self, asked):
        self._answer = asked.answer

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._answer(name)
        except KeyError:
            raise AttributeError(name) from None


class Items(dict):
    def __init__(self, asked):
        super().__init__()
        self._answer = asked.answer

    def __missing__(self, name):
        return self._answer(name)


def {asked}(query, key, value):
    unknown = set()
    for _ in range(MOST):
        asked = Asked(unknown)
        try:
            theirs{rest}(**{others!r}, {parameter}={holder}(asked))
        except (AttributeError, KeyError):
            if not asked.missed or asked.missed in unknown:
                return {{}}
            unknown.add(asked.missed)
        except Exception:  # its own, which a call tells
            return asked.fields
        else:
            return asked.fields
    return {{}}
"""
_MOST_UNKNOWN_FIELDS = 30


def call_initialiser(target: str, given: Mapping[str, str], process: CalleeProcess) -> ReturnedTree | None:
    """What the function `module:name` makes of this, which is Python; None where it raises."""
    texts = [f"{name}={text}" for name, text in given.items()]
    imports = "import jax" if any("jax." in text for text in texts) else ""
    return _call_text(_INITIALISER_TEXT.format(**_name_target(target), imports=imports, given=", ".join(texts)),
                      process)


ConfigNumbers = Mapping[str, int | float | bool]


def list_config_fields(target: str, parameter: str, known: ConfigNumbers, others: ConfigNumbers,
                       process: CalleeProcess, *,
                       is_dict: bool) -> tuple[str, ...]:
    """The fields of a config that the class `module:name` asks for while it is constructed, up to where it raises; none
    if it cannot be satisfied.

    known: what a field is answered with, by its plain name. One whose name says nothing is False, but for a question
    that can do without (`getattr(config, name, default)`).
    others: what else has to be given.
    """
    text = _CONFIG_TEXT.format(**_name_target(target), known=dict(known), most=_MOST_UNKNOWN_FIELDS,
                               others=dict(others), parameter=parameter,
                               holder="Items" if is_dict else "Attributes")
    made = _call_text(text, process)
    return tuple(part.path[0][2:-2] for part in made.parts) if made is not None else ()


def _name_target(target: str) -> Mapping[str, str]:
    module, _, name = target.partition(":")
    top, dot, rest = name.partition(".")
    return {"module": module, "top": top, "rest": dot + rest, "asked": _ASKER_NAME}


def _call_text(text: str, process: CalleeProcess) -> ReturnedTree | None:
    """What the function of a text returns; None where it raises."""
    callee = process.load_source(text, _ASKER_NAME, "").callee
    assert isinstance(callee, Hosted)  # it was loaded there
    nothing = {name: np.zeros((1, 1, 1, 1), np.float32) for name in ("query", "key", "value")}
    try:
        return callee.call_whole(Call(nothing, {}, DType.FLOAT32, ()))
    except (SubjectRaised, SubjectDied):
        return None
