"""Who raised an exception: the adapter, the subject's own code, or what it calls; and who is to blame for it."""

from __future__ import annotations

import re
from enum import Enum

from attnspec.host.loading import FROM_FILE, PACKAGE
from attnspec.subjects.call import SubjectRaised

FRAMEWORKS = frozenset({"numpy", "torch", "jax", "jaxlib", "ml_dtypes", "scipy", "tensorflow"})
"""The packages that compute for others: what they raise is said of arrays, and not of attention."""

_UNKNOWN = re.compile(r"(unexpected|invalid|unrecogni[sz]ed|unknown) keyword|"
                      r"required (positional|keyword-only) argument", re.IGNORECASE)
"""What is said of a keyword that is not known, or of an argument that is needed and was not given. Too many arguments
are another thing: a function may be documented to take no mask.
"""

_STUMBLES = frozenset({"NameError", "KeyError", "IndexError", "ZeroDivisionError", "StopIteration"})
"""What Python raises itself for code that is wrong about what it has in its hands."""

_UNREAL = ("Concretization", "Tracer")  # in the names of JAX's classes: a number is asked for before there is one


class Raiser(Enum):
    """Whose line raised."""

    ADAPTER = "an adapter"
    OWN = "a file that was named as a target"
    FRAMEWORK = "NumPy, PyTorch, JAX or another package that computes for others"
    LIBRARY = "any other module"
    UNKNOWN = "nobody can tell"


class Act(Enum):
    """What the line of who raised did.

    SPOKE: it raises or asserts.  CALLED: something that it called raised; mostly it shows no lines of its own.
    COMPUTED: an operator, an index, an attribute or a name did.  UNKNOWN: the host does not tell.
    """

    SPOKE = "raise"
    CALLED = "call"
    COMPUTED = "compute"
    UNKNOWN = ""


def raiser_of(raised: SubjectRaised) -> Raiser:
    """Whose line raised; of an attribute that is looked up, or a keyword that is handed on, who asked for it."""
    package = raised.module.partition(".")[0]
    if not package:
        return Raiser.UNKNOWN
    if package == PACKAGE:
        return Raiser.ADAPTER
    if package in FRAMEWORKS:
        return Raiser.FRAMEWORK
    return Raiser.OWN if package.startswith(FROM_FILE) else Raiser.LIBRARY


def act_of(raised: SubjectRaised) -> Act:
    """What the line that raised did."""
    known = {each.value: each for each in Act}
    return known.get(raised.act, Act.UNKNOWN)


def is_fault_of_adapter(raised: SubjectRaised) -> bool:
    """Whether an adapter raised it in its own file, and not what the adapter calls.

    It asks for what is not there (an attribute, a keyword, a name to import), leaves out what is needed, asks for a
    number that is not there yet, or stumbles over what it got. What it raises on purpose is said for its subject.
    """
    if raiser_of(raised) is not Raiser.ADAPTER or act_of(raised) is Act.SPOKE:
        return False
    if raised.classes & {"AttributeError", "ImportError"}:
        return True
    if raised.classes & {"TypeError", "ValueError"} and _UNKNOWN.search(raised.summary):
        return True
    if any(word in name for word in _UNREAL for name in raised.classes):
        return True
    return act_of(raised) is Act.COMPUTED and bool(raised.classes & _STUMBLES or _is_unpacking(raised))


def _is_unpacking(raised: SubjectRaised) -> bool:
    """Whether an answer had more or fewer parts than the adapter takes it to have."""
    return "values to unpack" in raised.summary or "cannot unpack" in raised.summary
