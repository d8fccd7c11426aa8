"""How a callable that knows nothing of attnspec is called: all that an adapter for it must say."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.ground.keywords import OTHER_NAMES
from attnspec.ground.nouns import Kind


class Layout(enum.Enum):
    """How query, key, value and output lie. The value shows the query's axes."""

    BHTD = "(B,H,T,D)"
    BTHD = "(B,T,H,D)"
    NTD = "(B·H,T,D)"
    BTE = "(B,T,H·D)"


@dataclass(frozen=True, slots=True)
class Passed:
    """A keyword of ours (`mask`) as it is handed to a parameter of theirs (`attn_mask`), in Python (`~mask`)."""

    keyword: str
    parameter: str
    expression: str


@dataclass(frozen=True, slots=True)
class Form:
    """What is known so far.

    target: `package.module:name`.  lift: the framework whose tensors it takes.  layout: of a function's arrays.
    names: its parameters for query, key and value; empty where they are given by position.
    inputs: how many arrays it takes: three, or one for self-attention.
    passed: keywords that it understands.  fixed: parameters that are always given, with a Python expression.
    default_scale: in words, where it is not 1/sqrt(D).
    returns_pair: a tuple comes back even where nobody asks for weights.
    construction, state: of a class: the arguments of its constructor, and what is copied into which of its parameters.
    remarks: what was noticed and cannot be said otherwise, for the manifest's note.
    """

    target: str
    kind: Kind = Kind.ATTENTION
    lift: str = ""
    layout: Layout = Layout.BHTD
    names: tuple[str, ...] = ()
    inputs: int = 3
    passed: tuple[Passed, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    default_scale: str = ""
    returns_pair: bool = False
    construction: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """What the adapter imports from."""
        return self.target.partition(":")[0]

    @property
    def name(self) -> str:
        """What it imports."""
        return self.target.partition(":")[2]

    @property
    def keywords(self) -> tuple[str, ...]:
        """Ours that it understands, in the order in which they were found."""
        return tuple(dict.fromkeys(each.keyword for each in self.passed))

    def parameter(self, keyword: str) -> str:
        """Theirs for one of ours; empty if there is none."""
        return next((each.parameter for each in self.passed if each.keyword == keyword), "")


# Theirs for ours, the usual one first. A mask's parameter may also be where a bias is added.
_KEYWORDS = {keyword: (keyword, *others) for keyword, others in OTHER_NAMES.items()}
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **_KEYWORDS,
    "bias": (*_KEYWORDS["bias"], *_KEYWORDS["mask"]),
    "heads": ("num_heads", "heads", "n_heads", "nhead", "head_num", "n_head", "num_attention_heads"),
    "width": ("embed_dim", "dim", "d_model", "hidden_size", "n_embd", "model_dim", "query_dim", "in_features",
              "embed_size", "hidden_dim"),
    "head_width": ("dim_head", "head_dim", "d_head"),
    "query": ("query", "q", "queries", "x", "hidden_states", "inputs", "input", "xq"),
    "key": ("key", "k", "keys", "xk"),
    "value": ("value", "v", "values", "xv"),
}
