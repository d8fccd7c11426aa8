"""Describes how a callable that knows nothing of attnspec is called."""

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
"""The side of a square of T tokens: one number for a window with two axes."""


QUARTER_TURN = "turned"
"""The variant whose queries and keys are turned by a quarter at all places."""


class CallableKind(enum.Enum):
    """The kind of thing that is called; it decides where parameters are. The value says it in
    words.
    """

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
    """A keyword of ours (`mask`) and the parameter of theirs (`attn_mask`) that takes it.

    expression: the Python that is passed where the keyword is in use (`~mask`).  says: what it
    means.
    """

    keyword: str
    parameter: str
    expression: str
    says: str = ""
    at: Site = Site.CALL


@dataclass(frozen=True, slots=True)
class ConfigObject:
    """The object that a constructor takes as its config.

    fields: its attributes or items, as Python.  name: its class, or "" for plain attributes or a
    dict.  module: where that class is.
    """

    fields: Mapping[str, str]
    name: str = ""
    module: str = ""
    is_dict: bool = False


@dataclass(frozen=True, slots=True)
class KeptCache:
    """A cache that calls fill in place.

    empty_text: Python of an empty one; empty where the module itself holds it, so that the module
    and a number of keys are the cache.  class_path: `module:name` of the class of an empty one.
    """

    empty_text: str = ""
    class_path: str = ""


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where in an answer the output is (`[0]`, `.output`, "" for the answer itself) and how it
    lies.

    weights_path: where weights or log-sum-exps are, if they come back.  extra_keyword: the keyword
    that asks for them.  asked_path: where the output is when a flag asks for them.
    """

    path: str = ""
    layout: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009  (frozen)
    weights_path: str = ""
    weights_layout: OutputLayout = OutputLayout("", "{0}")  # noqa: RUF009
    asked_path: str = ""
    extra_keyword: str = "return_weights"


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a class or function is called, as far as `init` knows.

    What is called, and how.  target: `package.module:name`.  lift: the framework whose tensors it
    takes.  method: the method that calls an object of no framework; empty where the object itself
    is called. arrangement, array_names: how its arrays lie, and their parameters; no names where
    they go by position.  arguments: by name, the Python of its other arguments.  positional_order:
    their order where they go by position.  bindings: its keywords.  reading: how the answer is
    read; None while that is not known. construction, config: what the constructor of a class is
    given.  mode: of a module of PyTorch.  gathered_inputs: the inputs that come in one parameter;
    empty where each has its own.  gathers_dict: whether they come in a dict, not in a tuple.
    cache_path: where a decoder's answer has the next cache.  kept_cache: a cache that calls fill
    in place.  is_compiled: whether jax.jit compiles it.  is_contiguous: whether its arrays are
    copied into plain order.

    What its parameters are.  state: by path, the Python of each parameter; None while they are not
    known.  initial_parameters: those that keep their initial values.  holders: by path in a tree,
    the class of an object, as `module:name`.

    What the adapter changes, so that the rest can be judged.  removed_parts: submodules that
    become nn.Identity. zero_tensors, filled_tensors: tensors of a module that are set to 0, or to
    another number.  replacements: by place, the Python that stands there during a call.
    stopped_rotations: the rotations of queries and keys that are switched off.  judged_part: a
    submodule whose output is judged in place of the whole.  padded_parameter: the parameter of
    lengths, where padding is passed.  is_padded_alike: whether all entries have the same length.

    What it takes. dtype, sizes: those at which it was found; sizes has the unusual lengths of
    axes.  limits: as in the manifest.  default_scale: in words, where it is not 1/sqrt(D).
    fixed_heads: its number of heads, 0 for any.  one_kv_head: one head of keys and values serves
    all queries.  even_heads: features turn in pairs, so D is even.  needs_several_heads: with one
    head it has other parameters.  mask_of_squares: it takes a mask where T = S only.
    tried_values: the values that an aspect tries, in its own words; empty for the usual ones.
    variants: by name, forms that must answer alike, such as the layer in training.

    What is said of it.  left_defaults: parameters that keep their defaults.  unjudged_parameters:
    those that could not be used.  demanded_keywords: keywords without which no check passes, since
    a parameter or a name promises them.  warnings: what a reader has to know first.  remarks: what
    else was noticed.  is_guess: whether the sizes of its constructor were found by trying alone.
    mistake: the plain mistake that explains its numbers.
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
        """Returns the module that the adapter imports from."""
        return self.target.partition(":")[0]

    @property
    def name(self) -> str:
        """Returns the name that the adapter imports."""
        return self.target.partition(":")[2]

    @property
    def next_cache(self) -> str:
        """Returns the Python of a decoder's cache for the next call; empty for others."""
        if self.kept_cache is None:
            return f"answer{self.cache_path}" if self.cache_path else ""
        return "cache" if self.kept_cache.empty_text else "(layer, start + T)"

    @property
    def keywords(self) -> tuple[str, ...]:
        """Returns our keywords that it understands, in the order in which they were found."""
        found = [each.keyword for each in self.bindings]
        if self.is_always_causal:
            found.append("causal")
        if self.reading and self.reading.weights_path:
            found.append(self.reading.extra_keyword)
        return tuple(dict.fromkeys(found))

    def understands(self, keyword: str) -> bool:
        """Says whether it understands a keyword of ours; a mask may go through its bias."""
        travels_as_bias = keyword == "mask" and bool(self.limits.get("bias_is_mask"))
        return travels_as_bias or keyword in self.keywords

    @property
    def is_always_causal(self) -> bool:
        """Says whether no query ever sees a later key."""
        return bool(self.limits.get("causal_only"))

    @property
    def made_always_causal(self) -> CallForm:
        """Returns the form as one that is always causal."""
        causal = replace(self, limits={**self.limits, "causal_only": True})
        return causal.with_remarks("It is always causal.")

    def with_remarks(self, *said: str) -> CallForm:
        """Returns the form with more remarks."""
        return replace(self, remarks=(*self.remarks, *said))

    def with_warning(self, said: str) -> CallForm:
        """Returns the form with this warning before the others."""
        return replace(self, warnings=(said, *self.warnings))

    def with_variant(self, name: str, variant: CallForm) -> CallForm:
        """Returns the form with one more variant."""
        return replace(self, variants={**self.variants, name: variant})

    def leave_out(self, parameter: str, why: str, demanded: Sequence[str]) -> CallForm:
        """Warns that a parameter is not judged, and demands these keywords."""
        warning = f"NOT JUDGED: {parameter}. {why}"
        return replace(self, unjudged_parameters=(*self.unjudged_parameters, parameter),
                       warnings=(*self.warnings, warning),
                       demanded_keywords=(*self.demanded_keywords, *demanded))

    @property
    def attends_to_itself(self) -> bool:
        """Says whether it takes only as many keys as queries."""
        return self.arrangement.is_one or bool(self.limits.get("self_attention_only"))

    @property
    def is_packed(self) -> bool:
        """Says whether its sequences follow one another, with borders between them."""
        return bool(self.parameter_for(BORDERS[0]))

    @property
    def takes_one_query(self) -> bool:
        """Says whether a sequence has one query in every call."""
        return self.sizes.get("T") == 1

    @property
    def takes_squares(self) -> bool:
        """Says whether its tokens fill a square, so that their number is square."""
        return SQUARE_SIDE in self.construction.values()

    @property
    def is_class(self) -> bool:
        """Says whether it is constructed before it is called."""
        return self.family not in (CallableKind.FUNCTION, CallableKind.TREE)

    @property
    def is_told_groups(self) -> bool:
        """Says whether it is given its number of key and value heads."""
        config = self.config.fields if self.config else {}
        return "Hkv" in (*self.arguments.values(), *self.construction.values(), *config.values())

    def given_at(self, site: Site) -> Mapping[str, str]:
        """Returns, by parameter, the Python that a call or a constructor is always given."""
        return self.arguments if site is Site.CALL else self.construction

    @property
    def defaults(self) -> Mapping[str, str]:
        """Returns the defaults of parameters that nothing is given, as Python; empty for one
        without a text. A module of PyTorch is called in evaluation: without a variant in training,
        that mode is untried.
        """
        forms = (self, *self.variants.values())
        told = {name for form in forms for name in (*form.arguments, *form.construction)}
        told |= {each.parameter for each in self.bindings}
        told |= {form.padded_parameter for form in forms}
        found = {name: text for name, text in self.left_defaults.items() if name not in told}
        has_modes = self.family in (CallableKind.TORCH, CallableKind.LAZY)
        if has_modes and "training" not in self.variants:
            found["training"] = "False"
        return found

    @property
    def untried_parameters(self) -> Mapping[str, str]:
        """Returns what a verdict names as never tried: parameters at defaults, and what is
        switched off. A rotation counts as tried where a variant turns by another angle.
        """
        unturned = () if QUARTER_TURN in self.variants else self.stopped_rotations
        return {**self.defaults, **dict.fromkeys(self.zero_tensors, "0"),
                **dict.fromkeys(unturned, "off")}

    def parameter_for(self, keyword: str) -> str:
        """Returns the parameter that takes a keyword of ours; empty if none does."""
        return next((each.parameter for each in self.bindings if each.keyword == keyword), "")


@dataclass(frozen=True, slots=True)
class ArrayTemplates:
    """Templates of Python for one framework's arrays; `{0}` is the argument.

    array_type: the type of an array.  imports: by name in the code, the statement.  added_mask: a
    mask as numbers to be added. number_mask: a mask as ones and zeros. hidden_bias: the bias where
    the mask allows it.  mapped_call: a function over one more axis.  nan_array: an array of this
    shape full of NaN. kv_heads: how many there are. parts: those of a fused matrix, in its order.
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
        array_type="np.ndarray", imports={"np": "import numpy as np"},
        stack="np.stack", concatenate="np.concatenate",
        added_mask="np.where({0}, 0, -np.inf).astype(query.dtype)",
        number_mask="{0}.astype(query.dtype)",
        hidden_bias="np.where(mask, bias, np.array(-np.inf, bias.dtype))",
        mapped_call="_each({0})", nan_array="np.full({0}, np.nan, query.dtype)"),
    "torch": ArrayTemplates(
        array_type="Tensor",
        imports={"torch": "import torch", "Tensor": "from torch import Tensor"},
        stack="torch.stack", concatenate="torch.cat",
        added_mask='torch.where({0}, 0.0, float("-inf")).to(query.dtype)',
        number_mask="{0}.to(query.dtype)",
        hidden_bias='bias.masked_fill(~mask, float("-inf"))', mapped_call="_each({0})",
        nan_array='torch.full({0}, float("nan"), dtype=query.dtype, device=query.device)'),
    "jax": ArrayTemplates(
        array_type="Array", stack="jnp.stack", concatenate="jnp.concatenate",
        imports={"jax": "import jax", "jnp": "import jax.numpy as jnp",
                 "Array": "from jax import Array"},
        added_mask="jnp.where({0}, 0, -jnp.inf).astype(query.dtype)",
        number_mask="{0}.astype(query.dtype)",
        hidden_bias="jnp.where(mask, bias, -jnp.inf)", mapped_call="jax.vmap({0})",
        nan_array="jnp.full({0}, jnp.nan, query.dtype)"),
}


Parameters = Mapping[Site, Sequence[TheirParameter]]


def bind_keyword(form: CallForm, keyword: str, parameters: Parameters,
                 sayings: Iterable[Saying]) -> Iterator[CallForm]:
    """Lists the form with one more keyword, in every way in which it may be passed."""
    for saying in sayings:
        for at, listed in parameters.items():
            for parameter in find_parameters(keyword, listed):
                if parameter.text or parameter.name in form.given_at(at):
                    passed = Binding(keyword, parameter.name, saying.expression, saying.says, at)
                    yield replace(form, bindings=(*form.bindings, passed),
                                  limits={**form.limits, **saying.limits})
