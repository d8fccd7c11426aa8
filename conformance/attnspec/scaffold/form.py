"""How a callable that knows nothing of attnspec is called: all that an adapter for it must say."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.forms import BORDERS
from attnspec.core.keyword import Saying
from attnspec.core.nouns import DType, Kind
from attnspec.scaffold.arrangements import Arrangement, OutputLayout, list_arrangements
from attnspec.scaffold.lookup import TheirParameter, find_parameters
from attnspec.subjects.call import ValuePath as Path

SQUARE_SIDE = "round(T**0.5)"
"""The side of a square of T tokens, as Python: what a constructor is told whose window has two axes and one number."""


QUARTER_TURN = "turned"
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


class Site(enum.Enum):
    """Where an argument goes."""

    CALL = "call"
    CONSTRUCTOR = "constructor"


@dataclass(frozen=True, slots=True)
class Binding:
    """A keyword of ours (`mask`) as it is handed to a parameter of theirs (`attn_mask`).

    expression: in Python (`~mask`), where the keyword is in use.  says: what that means, in words.
    """

    keyword: str
    parameter: str
    expression: str
    says: str = ""
    at: Site = Site.CALL


@dataclass(frozen=True, slots=True)
class ConfigObject:
    """The object that a constructor wants. name: of the class that makes it, or "" for plain attributes or a dict.

    module: where that class is.  fields: what is set, as Python.
    """

    fields: Mapping[str, str]
    name: str = ""
    module: str = ""
    is_dict: bool = False


@dataclass(frozen=True, slots=True)
class KeptCache:
    """A cache that calls fill in place. empty_text: Python of one that holds nothing; empty where the module itself
    holds it, so that module and number of keys together are the cache.  class_path: `module:name` of the class of an
    empty one.
    """

    empty_text: str = ""
    class_path: str = ""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where in an answer the output is (`[0]`, `.output`, "" for the answer itself) and how it lies.

    weights_path: where they, or log-sum-exps, are, if they come back; extra_keyword: the keyword that asks for them;
    asked_path: where the output is when they are asked for by a flag.
    """

    path: str = ""
    layout: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009  (frozen)
    weights_path: str = ""
    weights_layout: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009
    asked_path: str = ""
    extra_keyword: str = "return_weights"


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a class or function is called, as far as `init` knows by now.

    What is called, and how.
    target: `package.module:name`.  lift: the framework whose tensors it takes.  method: the method by which an object
    of no framework is called; empty where the object itself is.
    arrangement, array_names: how its arrays lie, and its parameters for them; no names where they go by position.
    arguments: its other arguments, with a Python expression each; positional_order: where they have to go by position.
    bindings: the keywords that it understands.  reading: how the answer is read; None while nobody knows.
    construction, config: of a class, what its constructor is given.  mode: of a module of PyTorch.
    gathered_inputs: the inputs that come in one parameter, in a dict or a tuple; none where each has its own.
    cache_path: of a decoder, where its answer has the next cache; kept_cache: a cache that calls fill in place.
    is_compiled: by jax.jit.  is_contiguous: its arrays are copied into plain order, which it asks for.

    What its parameters are.
    state: by path, what each is made of; None while nobody knows which there are.  initial_parameters: those that keep
    the values that they are born with.  holders: by path, `module:name` of the class of what has attributes in a tree.

    What is changed in the adapter, so that the rest can be judged.
    removed_parts: submodules that become nn.Identity.  zero_tensors, filled_tensors: tensors of a module that are set
    to 0, or to another number.  replacements: by place, Python of what stands there during a call.
    stopped_rotations: names of what turns queries and keys, and turns nothing here.  judged_part: a submodule whose
    output is judged in place of the whole.  padded_parameter: what is told lengths where padding is handed over;
    is_padded_alike: whether all are told the same.

    What it can take.
    dtype, sizes: those at which it was found; lengths of our axes that are not the usual ones.  limits: as in the
    manifest.  default_scale: in words, where it is not 1/sqrt(D).  fixed_heads: how many it has, 0 for any number.
    one_kv_head: one head of keys and values serves for all queries.  even_heads: features turn in pairs, so D is even.
    needs_several_heads: with one head it has other parameters.
    mask_of_squares: it takes a mask where T = S only.  tried_values: what an aspect tries it
    with, in the aspect's own words; empty: what is usual there.
    variants: by name, forms that must answer alike, such as the layer in training.

    What is said of it.
    left_defaults: parameters that keep their defaults.  unjudged_parameters: those that could not be used.
    demanded_keywords: keywords without which no check may pass, since it has a parameter or a name for them.
    warnings: what a reader has to know first.  remarks: what else was noticed.  is_guess: whether sizes of its
    constructor were found by trying alone.  mistake: the plain mistake that explains its numbers; empty for none.
    """

    target: str
    kind: Kind = Kind.ATTENTION
    family: CallableKind = CallableKind.FUNCTION
    lift: str = ""
    arrangement: Arrangement = list_arrangements(Kind.ATTENTION, 3)[0]
    array_names: tuple[str, ...] = ()
    reading: OutputPlace | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    positional_order: tuple[str, ...] = ()
    bindings: tuple[Binding, ...] = ()
    construction: Mapping[str, str] = field(default_factory=dict)
    config: ConfigObject | None = None
    state: Mapping[Path, str] | None = None
    holders: Mapping[Path, str] = field(default_factory=dict)
    removed_parts: tuple[str, ...] = ()
    zero_tensors: tuple[str, ...] = ()
    filled_tensors: Mapping[str, str] = field(default_factory=dict)
    replacements: Mapping[str, str] = field(default_factory=dict)
    gathered_inputs: tuple[str, ...] = ()
    gathers_dict: bool = False
    one_kv_head: bool = False
    stopped_rotations: tuple[str, ...] = ()
    even_heads: bool = False
    needs_several_heads: bool = False
    mask_of_squares: bool = False
    is_compiled: bool = False
    is_contiguous: bool = False
    default_scale: str = ""
    dtype: DType = DType.FLOAT32
    sizes: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, bool | int | str] = field(default_factory=dict)
    fixed_heads: int = 0
    left_defaults: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    cache_path: str = ""
    kept_cache: KeptCache | None = None
    demanded_keywords: tuple[str, ...] = ()
    unjudged_parameters: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_guess: bool = False
    method: str = ""
    mistake: str = ""
    judged_part: str = ""
    padded_parameter: str = ""
    is_padded_alike: bool = False
    initial_parameters: tuple[str, ...] = ()
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
        if self.kept_cache is None:
            return f"answer{self.cache_path}" if self.cache_path else ""
        return "cache" if self.kept_cache.empty_text else "(layer, start + T)"

    @property
    def keywords(self) -> tuple[str, ...]:
        """Ours that it understands, in the order in which they were found."""
        weights = [self.reading.extra_keyword] if self.reading and self.reading.weights_path else []
        causal = ["causal"] if self.is_always_causal else []
        return tuple(dict.fromkeys((*(each.keyword for each in self.bindings), *causal, *weights)))

    def understands(self, keyword: str) -> bool:
        """Whether the keyword is one of ours that it understands; a mask that goes through its bias is one."""
        return keyword in self.keywords or (keyword == "mask" and bool(self.limits.get("bias_is_mask")))

    @property
    def is_always_causal(self) -> bool:
        """Whether no query sees a later key, whatever it is told."""
        return bool(self.limits.get("causal_only"))

    @property
    def made_always_causal(self) -> CallForm:
        """The form, taken for one that is always causal."""
        return replace(self, limits={**self.limits, "causal_only": True}).with_remarks("It is always causal.")

    def with_remarks(self, *said: str) -> CallForm:
        """The form of which more is said."""
        return replace(self, remarks=(*self.remarks, *said))

    def with_warning(self, said: str) -> CallForm:
        """The form of which this has to be known first."""
        return replace(self, warnings=(said, *self.warnings))

    def leave_out(self, parameter: str, why: str, demanded: Sequence[str]) -> CallForm:
        """The form with a warning that a parameter is not judged, and keywords that are demanded for that."""
        warning = f"NOT JUDGED: {parameter}. {why}"
        return replace(self, unjudged_parameters=(*self.unjudged_parameters, parameter),
                       warnings=(*self.warnings, warning),
                       demanded_keywords=(*self.demanded_keywords, *demanded))

    @property
    def attends_to_itself(self) -> bool:
        """Whether it takes as many keys as queries only."""
        return self.arrangement.is_one or bool(self.limits.get("self_attention_only"))

    @property
    def is_packed(self) -> bool:
        """Whether its sequences lie one behind the other, and it is handed the borders between them."""
        return bool(self.parameter_for(BORDERS[0]))

    @property
    def takes_one_query(self) -> bool:
        """Whether a sequence has one query in every call."""
        return self.sizes.get("T") == 1

    @property
    def takes_squares(self) -> bool:
        """Whether its tokens fill a square, so that their number is a square number."""
        return SQUARE_SIDE in self.construction.values()

    @property
    def is_class(self) -> bool:
        """Whether it is constructed before it is called."""
        return self.family not in (CallableKind.FUNCTION, CallableKind.TREE)

    @property
    def is_told_groups(self) -> bool:
        """Whether it is given its number of key and value heads."""
        config = self.config.fields if self.config else {}
        return "Hkv" in (*self.arguments.values(), *self.construction.values(), *config.values())

    @property
    def defaults(self) -> Mapping[str, str]:
        """What its parameters are that nothing is given: their defaults as Python, empty where that cannot be said.

        A module of PyTorch is called as in evaluation: unless it has a variant for that, its training is nowhere tried.
        """
        forms = (self, *self.variants.values())
        told = {name for form in forms for name in (*form.arguments, *form.construction)}
        told |= {each.parameter for each in self.bindings} | {form.padded_parameter for form in forms}
        has_modes = self.family in (CallableKind.TORCH, CallableKind.LAZY) and "training" not in self.variants
        mode = {"training": "False"} if has_modes else {}
        return {**{name: text for name, text in self.left_defaults.items() if name not in told},
                **mode}

    @property
    def untried_parameters(self) -> Mapping[str, str]:
        """What a verdict has to name as never tried: parameters at their defaults, and what is switched off inside; a
        rotation is tried where a variant turns by another angle.
        """
        unturned = () if QUARTER_TURN in self.variants else self.stopped_rotations
        return {**self.defaults, **dict.fromkeys(self.zero_tensors, "0"),
                **dict.fromkeys(unturned, "off")}

    def parameter_for(self, keyword: str) -> str:
        """Theirs for one of ours; empty if there is none."""
        return next((each.parameter for each in self.bindings if each.keyword == keyword), "")


@dataclass(frozen=True, slots=True)
class ArrayTemplates:
    """Templates of Python; `{0}` is the argument.

    array_type: the type of an array.  added_mask: a mask as numbers to be added.  number_mask: a mask as ones and
    zeros. hidden_bias: the bias where the mask allows it.  mapped_call: a function over an axis more.  nan_array: an
    array of this shape in which no number stands.  kv_heads: how many there are.  parts: those of a fused matrix, in
    its order.
    """

    array_type: str
    imports: Mapping[str, str]  # by name in the code, the statement
    stack: str
    concatenate: str
    added_mask: str
    number_mask: str
    hidden_bias: str
    mapped_call: str
    nan_array: str
    kv_heads: str = "heads"
    parts: str = "PARTS"


TEMPLATES: Mapping[str, ArrayTemplates] = {
    "": ArrayTemplates(
        array_type="np.ndarray", imports={"np": "import numpy as np"}, stack="np.stack", concatenate="np.concatenate",
        added_mask="np.where({0}, 0, -np.inf).astype(query.dtype)",
        number_mask="{0}.astype(query.dtype)", hidden_bias="np.where(mask, bias, np.array(-np.inf, bias.dtype))",
        mapped_call="_each({0})", nan_array="np.full({0}, np.nan, query.dtype)"),
    "torch": ArrayTemplates(
        array_type="Tensor", imports={"torch": "import torch", "Tensor": "from torch import Tensor"},
        stack="torch.stack",
        concatenate="torch.cat",
        added_mask='torch.where({0}, 0.0, float("-inf")).to(query.dtype)', number_mask="{0}.to(query.dtype)",
        hidden_bias='bias.masked_fill(~mask, float("-inf"))', mapped_call="_each({0})",
        nan_array='torch.full({0}, float("nan"), dtype=query.dtype, device=query.device)'),
    "jax": ArrayTemplates(
        array_type="Array", stack="jnp.stack", concatenate="jnp.concatenate",
        imports={"jax": "import jax", "jnp": "import jax.numpy as jnp", "Array": "from jax import Array"},
        added_mask="jnp.where({0}, 0, -jnp.inf).astype(query.dtype)", number_mask="{0}.astype(query.dtype)",
        hidden_bias="jnp.where(mask, bias, -jnp.inf)", mapped_call="jax.vmap({0})",
        nan_array="jnp.full({0}, jnp.nan, query.dtype)"),
}
"""By lift."""


Parameters = Mapping[Site, Sequence[TheirParameter]]


def bind_keyword(form: CallForm, keyword: str, parameters: Parameters,
                 sayings: Iterable[Saying]) -> Iterator[CallForm]:
    """The form with one keyword more, in every way in which it may be handed over."""
    for saying in sayings:
        for at, listed in parameters.items():
            for parameter in find_parameters(keyword, listed):
                if parameter.text or parameter.name in (form.arguments if at is Site.CALL else form.construction):
                    passed = Binding(keyword, parameter.name, saying.expression, saying.says, at)
                    yield replace(form, bindings=(*form.bindings, passed),
                                  limits={**form.limits, **saying.limits})
