"""How a callable that knows nothing of attnspec is called: all that an adapter for it must say."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.forms import BORDERS
from attnspec.core.nouns import DType, Kind
from attnspec.scaffold.arrangements import Arrangement, OutputLayout, arrangements
from attnspec.subjects.call import ValuePath as Path

SIDE = "round(T**0.5)"
"""The side of a square of T tokens, as Python: what a constructor is told whose window has two axes and one number."""


TURNED = "turned"
"""The variant whose queries and keys are turned by a quarter at all places."""


class CallableKind(enum.Enum):
    """What kind of thing is called, and so where its parameters are kept. The value says it in words."""

    FUNCTION = "function"
    TREE = "function over parameters"
    TORCH = "module of PyTorch"
    LAZY = "module of PyTorch whose parameters a first call makes"
    EQUINOX = "module of Equinox"
    LINEN = "module of flax.linen"
    NNX = "module of flax.nnx"
    HAIKU = "module of Haiku"
    KERAS = "layer of Keras"
    PLAIN = "class of no framework, which keeps its matrices as attributes"


class ModuleMode(enum.Enum):
    """The mode in which a module of PyTorch is called."""

    EVALUATION = "evaluation"
    TRAINING = "training"
    TRAINING_WITHOUT_DROPOUT = "training, with the rate of every nn.Dropout at 0"


class At(enum.Enum):
    """Where an argument goes."""

    CALL = "call"
    CONSTRUCTOR = "constructor"


@dataclass(frozen=True, slots=True)
class Passed:
    """A keyword of ours (`mask`) as it is handed to a parameter of theirs (`attn_mask`).

    expression: in Python (`~mask`), where the keyword is in use.  says: what that means, in words.
    """

    keyword: str
    parameter: str
    expression: str
    says: str = ""
    at: At = At.CALL


@dataclass(frozen=True, slots=True)
class Config:
    """The object that a constructor wants. name: of the class that makes it, or "" for plain attributes or a dict.

    module: where that class is.  fields: what is set, as Python.
    """

    fields: Mapping[str, str]
    name: str = ""
    module: str = ""
    is_dict: bool = False


@dataclass(frozen=True, slots=True)
class KeptCache:
    """A cache that calls fill in place. empty: Python of one that holds nothing; empty where the module itself holds
    it, so that module and number of keys together are the cache.  made_by: `module:name` of the class of an empty one.
    """

    empty: str = ""
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where in an answer the output is (`[0]`, `.output`, "" for the answer itself) and how it lies.

    weights: where they, or log-sum-exps, are, if they come back; beside: the keyword that asks for them; asked: where
    the output is when they are asked for by a flag.
    """

    path: str = ""
    back: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009  (frozen)
    weights: str = ""
    weights_back: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009
    asked: str = ""
    beside: str = "return_weights"


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a function or class is called, as far as `init` knows by now.

    target: `package.module:name`.  lift: the framework whose tensors it takes.
    arrangement, names: how its arrays lie, and its parameters for them; no names where they are given by position.
    reading: how the answer is read; None while nobody knows.
    given: other parameters of the call, with a Python expression each; by_position: their order where they have to be
    given so.  passed: keywords that it understands.
    construction, config: of a class: the arguments of its constructor.
    state: by the path of each of its parameters, what that is made of; None while nobody knows which there are.
    holders: by the path of what has attributes in a tree of parameters, `module:name` of the class that makes it.
    without: submodules that are replaced by nn.Identity.  zeroed: tensors of a module that are set to 0;
    filled: those that are filled with another number.  replaced: by place, Python of what stands there while it is
    called.  gathered: the inputs that it takes in one parameter, and whether in a dict; none where each has its own.
    one_kv_head: whether it has one head of keys and values for all query heads.
    unturned: the names of what turns queries and keys, and turns nothing in the adapter.
    even_heads: whether features turn in pairs, so that D is even.
    compiled: by jax.jit.  contiguous: its arrays are copied into plain order, which it asks for.
    default_scale: in words, where it is not 1/sqrt(D).  dtype, sizes: at which it was found; lengths of our axes that
    are not the usual ones.  limits: as in the manifest.
    mask_of_squares: whether it takes a mask where T = S only.
    heads: how many it has, whatever it is handed; 0: as many as it is handed.
    left: parameters that keep their defaults.  remarks: what was noticed and cannot be said otherwise.
    cache: of a decoder, where in its answer the cache for the next call is.  kept: the same where calls fill it in
    place.
    demanded: keywords without which no check of it may pass: it has a parameter for them that could not be used, or is
    named for them.  unjudged: the parameters that could not be used, each with a warning.
    warnings: what a reader has to know first: what is not judged of it, and what is odd.
    is_guess: whether sizes of its constructor were found by trying alone.
    mistake: the name of a plain mistake with which alone its numbers are those of attention; empty where it makes none.
    judged: a submodule whose output is judged in place of the whole; empty where there is none.  padded: the parameter
    that is told lengths where padding is handed over; padded_alike: whether these are all the same.
    called: the method by which an object of no framework is called; empty where the object itself is.
    initial: the names of its parameters that keep the values that it is born with.
    tried_values: what an aspect tries it with, in the aspect's own words; empty: what is usual there.
    mode: of a module of PyTorch.  variants: by name, forms that must answer alike, such as the layer in training.
    """

    target: str
    kind: Kind = Kind.ATTENTION
    family: CallableKind = CallableKind.FUNCTION
    lift: str = ""
    arrangement: Arrangement = arrangements(Kind.ATTENTION, 3)[0]
    names: tuple[str, ...] = ()
    reading: OutputPlace | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    by_position: tuple[str, ...] = ()
    passed: tuple[Passed, ...] = ()
    construction: Mapping[str, str] = field(default_factory=dict)
    config: Config | None = None
    state: Mapping[Path, str] | None = None
    holders: Mapping[Path, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    gathered: tuple[str, ...] = ()
    gathers_dict: bool = False
    one_kv_head: bool = False
    unturned: tuple[str, ...] = ()
    even_heads: bool = False
    mask_of_squares: bool = False
    compiled: bool = False
    contiguous: bool = False
    default_scale: str = ""
    dtype: DType = DType.FLOAT32
    sizes: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, bool | int | str] = field(default_factory=dict)
    heads: int = 0
    left: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    cache: str = ""
    kept: KeptCache | None = None
    demanded: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_guess: bool = False
    called: str = ""
    mistake: str = ""
    judged: str = ""
    padded: str = ""
    padded_alike: bool = False
    initial: tuple[str, ...] = ()
    tried_values: str = ""
    mode: ModuleMode = ModuleMode.EVALUATION
    variants: Mapping[str, CallForm] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """What the adapter imports from."""
        return self.target.partition(":")[0]

    @property
    def name(self) -> str:
        """What it imports."""
        return self.target.partition(":")[2]

    @property
    def next_cache(self) -> str:
        """Of a decoder, the Python of the cache for the next call; empty where it is none."""
        if self.kept is None:
            return f"answer{self.cache}" if self.cache else ""
        return "cache" if self.kept.empty else "(layer, start + T)"

    @property
    def keywords(self) -> tuple[str, ...]:
        """Ours that it understands, in the order in which they were found."""
        weights = [self.reading.beside] if self.reading and self.reading.weights else []
        causal = ["causal"] if self.limits.get("causal_only") else []
        return tuple(dict.fromkeys((*(each.keyword for each in self.passed), *causal, *weights)))

    def understands(self, keyword: str) -> bool:
        """Whether the keyword is one of ours that it understands; a mask that goes through its bias is one."""
        return keyword in self.keywords or (keyword == "mask" and bool(self.limits.get("bias_is_mask")))

    def leave_out(self, parameter: str, why: str, demanded: Sequence[str]) -> CallForm:
        """The form with a warning that a parameter is not judged, and keywords that are demanded for that."""
        warning = f"NOT JUDGED: {parameter}. {why}"
        return replace(self, unjudged=(*self.unjudged, parameter), warnings=(*self.warnings, warning),
                       demanded=(*self.demanded, *demanded))

    @property
    def attends_to_itself(self) -> bool:
        """Whether it takes as many keys as queries only."""
        return self.arrangement.is_one or bool(self.limits.get("self_attention_only"))

    @property
    def is_packed(self) -> bool:
        """Whether its sequences lie one behind the other, and it is handed the borders between them."""
        return bool(self.parameter(BORDERS[0]))

    @property
    def takes_one_query(self) -> bool:
        """Whether a sequence has one query in every call."""
        return self.sizes.get("T") == 1

    @property
    def takes_squares(self) -> bool:
        """Whether its tokens fill a square, so that their number is a square number."""
        return SIDE in self.construction.values()

    @property
    def is_class(self) -> bool:
        """Whether it is constructed before it is called."""
        return self.family not in (CallableKind.FUNCTION, CallableKind.TREE)

    @property
    def is_told_groups(self) -> bool:
        """Whether it is given its number of key and value heads."""
        config = self.config.fields if self.config else {}
        return "Hkv" in (*self.given.values(), *self.construction.values(), *config.values())

    @property
    def defaults(self) -> Mapping[str, str]:
        """What its parameters are that nothing is given: their defaults as Python, empty where that cannot be said.

        A module of PyTorch is called as in evaluation: unless it has a variant for that, its training is nowhere tried.
        """
        forms = (self, *self.variants.values())
        told = {name for form in forms for name in (*form.given, *form.construction)}
        told |= {each.parameter for each in self.passed} | {form.padded for form in forms}
        has_modes = self.family in (CallableKind.TORCH, CallableKind.LAZY) and "training" not in self.variants
        mode = {"training": "False"} if has_modes else {}
        return {**{name: text for name, text in self.left.items() if name not in told}, **mode}

    @property
    def untried(self) -> Mapping[str, str]:
        """What a verdict has to name as never tried: parameters at their defaults, and what is switched off inside; a
        rotation is tried where a variant turns by another angle.
        """
        unturned = () if TURNED in self.variants else self.unturned
        return {**self.defaults, **dict.fromkeys(self.zeroed, "0"), **dict.fromkeys(unturned, "off")}

    def parameter(self, keyword: str) -> str:
        """Theirs for one of ours; empty if there is none."""
        return next((each.parameter for each in self.passed if each.keyword == keyword), "")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Templates of Python; `{0}` is the argument.

    array: the type of an array.  added: a mask as numbers to be added.  numbers: a mask as ones and zeros.
    hidden: the bias where the mask allows it.  mapped: a function over an axis more.  filled: an array of this shape in
    which no number stands.  kv_heads: how many there are.  parts: those of a fused matrix, in its order.
    """

    array: str
    imports: Mapping[str, str]  # by name in the code, the statement
    stack: str
    concatenate: str
    added: str
    numbers: str
    hidden: str
    mapped: str
    filled: str
    kv_heads: str = "heads"
    parts: str = "PARTS"


VOCABULARIES: Mapping[str, Vocabulary] = {
    "": Vocabulary(
        array="np.ndarray", imports={"np": "import numpy as np"}, stack="np.stack", concatenate="np.concatenate",
        added="np.where({0}, 0, -np.inf).astype(query.dtype)",
        numbers="{0}.astype(query.dtype)", hidden="np.where(mask, bias, np.array(-np.inf, bias.dtype))",
        mapped="_each({0})", filled="np.full({0}, np.nan, query.dtype)"),
    "torch": Vocabulary(
        array="Tensor", imports={"torch": "import torch", "Tensor": "from torch import Tensor"}, stack="torch.stack",
        concatenate="torch.cat",
        added='torch.where({0}, 0.0, float("-inf")).to(query.dtype)', numbers="{0}.to(query.dtype)",
        hidden='bias.masked_fill(~mask, float("-inf"))', mapped="_each({0})",
        filled='torch.full({0}, float("nan"), dtype=query.dtype, device=query.device)'),
    "jax": Vocabulary(
        array="Array", stack="jnp.stack", concatenate="jnp.concatenate",
        imports={"jax": "import jax", "jnp": "import jax.numpy as jnp", "Array": "from jax import Array"},
        added="jnp.where({0}, 0, -jnp.inf).astype(query.dtype)", numbers="{0}.astype(query.dtype)",
        hidden="jnp.where(mask, bias, -jnp.inf)", mapped="jax.vmap({0})",
        filled="jnp.full({0}, jnp.nan, query.dtype)"),
}
"""By lift."""
