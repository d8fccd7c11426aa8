"""The sizes and options at which the suites of today test, as they are published: facts, each with its source."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnspec.core.nouns import DType

HALVES = (DType.FLOAT16, DType.BFLOAT16)
THREE = (DType.FLOAT32, *HALVES)
"""Where rules are used."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GridSource:
    """Where the values of a grid were read: repository, file and commit."""

    repository: str
    file: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repository} {self.file} at {self.commit[:7]}"


class Option(enum.Enum):
    """What a test puts beside query, key and value."""

    CAUSAL = "causal"
    LOCAL = "window"                # both sides drawn in [0, S)
    ALIBI = "ALiBi slopes"
    PADDED = "key padding"          # all but the last 20 keys at most
    CACHED = "filled cache"         # each sequence sees a number of leading keys drawn in [1, S]
    FLOAT_MASK = "float mask"
    BOOLEAN_MASK = "boolean mask"
    SOFTCAP = "softcap"
    SCALE = "scale 1/d"
    APPENDED = "new keys"           # as many as queries, behind those of a cache
    FEWER = "fewer new keys"        # their number is drawn in [1, T]


@dataclass(frozen=True, slots=True)
class ParameterGrid:
    """A parametrised test: every combination of its values is a case.

    batches: B.  heads: (H, Hkv).  lengths: (T, S).  widths: (D, Dv).  switches: options that are on or off.
    always: options that are on in all cases.  softcap: its value.  gain: what the query is multiplied by.
    square: the causal flag is put only where T = S.
    """

    source: GridSource
    test: str
    batches: tuple[int, ...]
    heads: tuple[Pair, ...]
    lengths: tuple[Pair, ...]
    widths: tuple[Pair, ...]
    switches: tuple[Option, ...] = ()
    always: tuple[Option, ...] = ()
    softcap: float | None = None
    gain: float = 1.0
    square: bool = False


def by_test(published: Iterable[ParameterGrid]) -> Mapping[str, ParameterGrid]:
    """The grids by the names of their tests."""
    return {grid.test: grid for grid in published}


def _alike(*numbers: int) -> tuple[Pair, ...]:
    """Heads without groups, lengths T = S, values as wide as keys."""
    return tuple((number, number) for number in numbers)


def _times(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Pair, ...]:
    return tuple(itertools.product(first, second))


def _add_swapped(*pairs: Pair) -> tuple[Pair, ...]:
    """These, and the same with T and S exchanged."""
    return (*pairs, *((second, first) for first, second in pairs))


# flash-attention 2

_FLASH = GridSource("Dao-AILab/flash-attention", "tests/test_flash_attn.py", "0251105a2fb19d2957484b7f023cd8c115286ced")
_WIDE = _alike(32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
_LENGTHS = ((113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024),
            (1024, 1023), (2048, 2048))
_CAUSAL_LENGTHS = _add_swapped((1, 239), (3, 799), (127, 512), (127, 513), (113, 203), (128, 217), (113, 211),
                               (108, 256),
                               (256, 512), (1023, 1024))
_GROUPS_OF_SIX = ((6, 6), (6, 1), (6, 2))
_THREE_OPTIONS = (Option.CAUSAL, Option.LOCAL, Option.ALIBI)

FLASH_ATTENTION = (
    ParameterGrid(_FLASH, "test_flash_attn_output", (4,), _GROUPS_OF_SIX, _LENGTHS,
                  _alike(32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256), _THREE_OPTIONS),
    ParameterGrid(_FLASH, "test_flash_attn_output, softcap", (4,), ((4, 4), (4, 1), (4, 2)), _LENGTHS,
                  _alike(32, 40, 59, 64, 96, 111, 128, 160, 192, 224, 256), _THREE_OPTIONS, (Option.SOFTCAP,),
                  softcap=50.0, gain=50.0),
    ParameterGrid(_FLASH, "test_flash_attn_varlen_output", (4,), _GROUPS_OF_SIX, ((1, 147), *_LENGTHS),
                  _alike(32, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256), _THREE_OPTIONS, (Option.PADDED,)),
    ParameterGrid(_FLASH, "test_flash_attn_qkvpacked", (4,), _alike(9),
                  _alike(97, 128, 200, 384, 768, 1024, 1025, 2048), _WIDE, _THREE_OPTIONS),
    ParameterGrid(_FLASH, "test_flash_attn_varlen_qkvpacked", (5,), _alike(6),
                  _alike(97, 128, 200, 257, 384, 512, 768, 1025, 2048),
                  _alike(32, 59, 64, 80, 96, 128, 160, 192, 224, 256), _THREE_OPTIONS, (Option.PADDED,)),
    ParameterGrid(_FLASH, "test_flash_attn_causal", (8,), _alike(9), _CAUSAL_LENGTHS, _WIDE, (Option.LOCAL,),
                  (Option.CAUSAL,)),
    ParameterGrid(_FLASH, "test_flash_attn_varlen_causal", (8,), _alike(9), _CAUSAL_LENGTHS, _WIDE, (Option.LOCAL,),
                  (Option.CAUSAL, Option.PADDED)),
    ParameterGrid(_FLASH, "test_flash_attn_splitkv", (1,), _alike(12),
                  _add_swapped((3, 1024), (1, 339), (64, 800), (3, 799), (64, 2048), (16, 20000), (16, 100000),
                               (128, 128),
                               (256, 256)), _WIDE, _THREE_OPTIONS),
    ParameterGrid(_FLASH, "test_flash_attn_kvcache", (2,), ((6, 6), (6, 1), (6, 3)),
                  ((1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000), (1, 131072),
                   (16, 131072), (128, 128)), _alike(32, 59, 64, 80, 128, 256), _THREE_OPTIONS, (Option.CACHED,)),
)

# flash-attention 3

_HOPPER = GridSource("Dao-AILab/flash-attention", "hopper/test_flash_attn.py",
                     "0251105a2fb19d2957484b7f023cd8c115286ced")
_COMPILED = ((64, 256), (64, 512), (64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256))
_HOPPER_LENGTHS = ((1, 1), (64, 128), (128, 192), (256, 256), (239, 1), (799, 3), (113, 203), (113, 128), (128, 217),
                   (113, 211), (108, 256), (256, 512), (384, 256), (640, 128), (512, 256), (1024, 1024), (1023, 1024),
                   (1024, 1023), (4096, 4096), (4224, 4224))
_RAGGED_LENGTHS = ((1, 1), (1, 3), (2, 1), (511, 1), (3, 513), (64, 128), (128, 128), (256, 256), (113, 203),
                   (128, 217), (113, 211), (108, 256), (256, 512), (307, 256), (640, 128), (512, 256), (1024, 1024),
                   (1023, 1024), (1024, 1023), (2048, 2048), (4096, 4096))
_TWO_OPTIONS = (Option.CAUSAL, Option.LOCAL)

FLASH_ATTENTION_3 = (
    ParameterGrid(_HOPPER, "test_flash_attn_output", (9,), _GROUPS_OF_SIX, _HOPPER_LENGTHS, _COMPILED, _TWO_OPTIONS),
    ParameterGrid(_HOPPER, "test_flash_attn_output, softcap", (9,), _GROUPS_OF_SIX, _HOPPER_LENGTHS, _COMPILED,
                  _TWO_OPTIONS, (Option.SOFTCAP,), softcap=15.0, gain=3.75),
    ParameterGrid(_HOPPER, "test_flash_attn_varlen_output", (9,), _GROUPS_OF_SIX, _RAGGED_LENGTHS, _COMPILED,
                  _TWO_OPTIONS, (Option.PADDED,)),
    ParameterGrid(_HOPPER, "test_flash_attn_kvcache", (5,), ((6, 6), (6, 1), (6, 3)),
                  ((1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000), (128, 128),
                   (256, 512), (2048, 3577)), _alike(128), _TWO_OPTIONS, (Option.CACHED,)),
)

# PyTorch's tests of scaled_dot_product_attention against its math path

_TRANSFORMERS = "test/test_transformers.py"
_TORCH = GridSource("pytorch/pytorch", _TRANSFORMERS, "1dea6e3d39ae1ea15dbe58437bbd18e0e967ebf3")  # in a fork's copy
_TORCH_MASK = GridSource("pytorch/pytorch", _TRANSFORMERS, "00030eb8e81f911c48c4d7634fa6b8bb2fae1a1b")
_TORCH_CPU = GridSource("pytorch/pytorch", _TRANSFORMERS, "6ac86627d419394fc77fd09392046a4bbd44ec9e")
_EFFICIENT = _alike(8, 16, 96, 128)
_CAUSAL_SCALED = (Option.CAUSAL, Option.SCALE)

FUSED_ATTENTION = (
    ParameterGrid(_TORCH, "test_mem_efficient_attention_vs_math_ref_grads", (1, 8), _alike(4),
                  _times((8, 103, 1024, 2048), (8, 103, 1024, 2048)), _EFFICIENT, _CAUSAL_SCALED),
    ParameterGrid(_TORCH, "test_mem_efficient_attention_attn_mask_vs_math_ref_grads", (1, 8), _alike(4),
                  _times((8, 312, 1024, 2048), (8, 408, 1024, 2048)), _EFFICIENT, (Option.SCALE,),
                  (Option.FLOAT_MASK,)),
    ParameterGrid(_TORCH, "test_flash_attention_vs_math_ref_grads", (1, 8), ((4, 4), (16, 8), (10, 2)),
                  _times((4, 143, 2048), (4, 127, 579, 2048)), _alike(8, 203, 256), _CAUSAL_SCALED, square=True),
    ParameterGrid(_TORCH, "test_fused_attention_vs_math_ref_grads_cudagraph", (1, 8), _alike(4),
                  _times((256, 1024), (256, 1024)), _alike(32, 64), _CAUSAL_SCALED),
    ParameterGrid(_TORCH_CPU, "test_scaled_dot_product_fused_attention_vs_math_cpu", (2, 12), _alike(1, 3),
                  _alike(267, 1030), _alike(8, 16), (Option.CAUSAL,)),
    ParameterGrid(_TORCH_MASK, "test_scaled_dot_product_fused_attention_mask_vs_math_cpu, float", (2,), _alike(3),
                  ((267, 514),), _alike(8), (), (Option.FLOAT_MASK,)),
    ParameterGrid(_TORCH_MASK, "test_scaled_dot_product_fused_attention_mask_vs_math_cpu, boolean", (2,), _alike(3),
                  ((267, 514),), _alike(8), (), (Option.BOOLEAN_MASK,)),
)

# KernelBench: one shape a problem, drawn five times; the attention of its other problems lies inside whole networks

_BENCH = "ScalingIntelligence/KernelBench"
_BENCH_COMMIT = "423217d9fda91e0c2d67e4a43bf62f96f6d104f1"

KERNELBENCH = (
    ParameterGrid(GridSource(_BENCH, "KernelBench/level1/97_ScaledDotProductAttention.py", _BENCH_COMMIT),
                  "level 1 problem 97", (32,), _alike(32), _alike(512), _alike(1024)),
    ParameterGrid(GridSource(_BENCH, "KernelBench/level3/43_MinGPTCausalAttention.py", _BENCH_COMMIT),
                  "level 3 problem 43", (128,), _alike(8), _alike(512), _alike(96), (), (Option.CAUSAL,)),
    ParameterGrid(GridSource(_BENCH, "KernelBench/level3/31_VisionAttention.py", _BENCH_COMMIT), "level 3 problem 31",
                  (2,), _alike(4), _alike(16384), _alike(32)),
)

# Where inputs.py and onnx_nodes.py have their fixed cases from

OPERATOR_SAMPLES = GridSource("pytorch/pytorch", "torch/testing/_internal/common_methods_invocations.py", "v2.13.0")
NODE_CASES = GridSource("onnx/onnx", "onnx/backend/test/case/node/attention.py",
                        "f7546912001bc31e92a238b17068a21b373d882e")
