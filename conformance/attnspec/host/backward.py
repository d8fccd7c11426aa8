"""What a backward pass returns: one mapping, with gradients of inputs and of a layer's parameters by their names."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from .frames import Entries
from .lifts.making import INPUTS, NotReached, is_parameter

MOST = 20
"""Names that are told of a mapping that has others than those that are expected."""


def in_order(returned: Mapping[Any, Any], wrt: Sequence[str]) -> List[Any]:
    """The gradients, of any shape, with respect to these arguments; None where the mapping has none of that name.

    Raises NotReached where parameters are among the arguments and it has a gradient of none of them.
    """
    found = {name: returned.get(own_name(name)) for name in wrt}
    of_parameters = [each for name, each in found.items() if is_parameter(name)]
    if of_parameters and all(each is None for each in of_parameters):
        raise NotReached
    return list(found.values())


def misnamed(returned: Mapping[Any, Any], wrt: Sequence[str], keywords: Mapping[str, Any]) -> str:
    """What the mapping has, in words, where a gradient is missing and another one bears a name that nothing here has,
    so that it may be the one that is missing; empty of any other.
    """
    arrays = {name for name, value in keywords.items() if isinstance(value, Entries)}
    known = arrays.union(INPUTS, map(own_name, wrt), *(value for value in keywords.values() if isinstance(value, dict)))
    has = [name for name, value in returned.items() if value is not None]
    is_whole = all(own_name(name) in has for name in wrt)
    return "" if is_whole or known.issuperset(has) else "a mapping of {}".format(", ".join(map(str, has[:MOST])))


def own_name(name: str) -> str:
    """What an argument is called in the mapping: `w_out` of `params.w_out`."""
    return name.rpartition(".")[2]
