"""What real attentions got wrong at certain sizes only: public threads, and the families that make the same mistake.

Each thread was read, most in part. A link says that someone reported or repaired it there, no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnspec.faults.outside import Outside
from attnspec.faults.size_family import reach_of
from attnspec.faults.sizes.families import ALL_FAMILIES

_GITHUB = "https://github.com/"


@dataclass(frozen=True, slots=True)
class Thread:
    """A public thread. sizes: at which sizes it went wrong, in the thread's words for the axes or in ours.

    faults: those that make the mistake, or why none does.  told: whether the thread tells the mechanism; where it
    tells sizes alone, the faults are those that show at such sizes.
    """

    link: str
    sizes: str
    faults: tuple[str, ...] | Outside
    told: bool = True


def _thread(thread: str, sizes: str, faults: str) -> Thread:
    return Thread(_GITHUB + thread, sizes, tuple(faults.split()))


def _sizes_alone(thread: str, sizes: str, faults: str) -> Thread:
    return Thread(_GITHUB + thread, sizes, tuple(faults.split()), told=False)


def _left_out(thread: str, sizes: str, why: Outside) -> Thread:
    return Thread(_GITHUB + thread, sizes, why)


_OF_KEYS_AND_ROWS = (
    _thread("flashinfer-ai/flashinfer/pull/5090", "S no multiple of 64: what is filled in counts with logit 0",
            "size_keys_padding_counted"),
    _thread("NVIDIA/TensorRT-LLM/pull/18174", "S no multiple of 128: padded keys of zeros are not masked",
            "size_keys_padding_counted"),
    _thread("pytorch/pytorch/pull/160861", "S no multiple of the block of 128, paged: no mask past the last key",
            "size_keys_padding_counted"),
    _thread("tenstorrent/tt-metal/issues/54833", "S no multiple of 32 with a mask: its padded columns are 0, so seen",
            "size_keys_padding_counted"),
    _thread("pytorch/pytorch/pull/169222", "T up to 8, S no multiple of 32: threads read on past the last key",
            "size_tail_of_next_head"),
    _sizes_alone("pytorch/pytorch/issues/133717", "T = 1, S no multiple of the block: reads past the end, NaN",
                 "size_tail_of_next_head size_decoding_next_head"),
    _sizes_alone("pytorch/pytorch/issues/159247", "S no multiple of the block of 128",
                 "size_keys_tail_lost size_keys_padding_counted"),
    _sizes_alone("NVIDIA/TensorRT/issues/2541", "T = 1, S = 1500 where the kernel has room for 128",
                 "size_keys_beyond_lost size_decoding_keys_lost"),
    _sizes_alone("Tlntin/trt2023/issues/1", "S > 128 in cross-attention", "size_keys_beyond_lost"),
    _thread("pytorch/pytorch/issues/162588", "S > 65536 with a mask: a number of 16 bits, it seems",
            "size_keys_number_wraps size_mask_column_wraps"),
    _thread("thu-ml/SageAttention/issues/386", "long rows of strided inputs: a row's offset in 32 bits wraps",
            "size_rows_number_wraps"),
    _sizes_alone("thu-ml/SageAttention/issues/26", "S other than T", "size_keys_beyond_queries"),
    _sizes_alone("jax-ml/jax/issues/24491", "S other than T", "size_keys_beyond_queries size_rows_beyond_keys"),
    _thread("ml-explore/mlx/issues/3897", "D = 64 and 128, not 96, with a mask: sums of reduced width",
            "size_sum_in_half"),
    _thread("tenstorrent/tt-metal/pull/13997", "T = 1 against 128K keys: the accumulator's error", "size_sum_in_half"),
)

_OF_SPLITS = (
    _sizes_alone("ml-explore/mlx/issues/4022", "T = 1, S >= 1024, grouped heads: the kernel in two passes",
                 "size_decoding_next_head size_decoding_splits"),
    _thread("ROCm/vllm/pull/22", "T = 1, S > 16384: the reducing kernel has room for no more",
            "size_decoding_keys_lost"),
    _thread("vllm-project/flash-attention/pull/176", "B > 1, split keys: the combining kernel's batch stride is 0",
            "size_decoding_rows_unwritten"),
    _thread("pytorch/pytorch/issues/194167", "B > 1, split keys: rows of all but the first sequence are not written",
            "size_decoding_rows_unwritten"),
    _thread("intel/llm-scaler/pull/368", "S > 1024, B > 1: the last phase reads without the batch offset",
            "size_decoding_batch_folded"),
)

_OF_KEYWORDS = (
    _thread("vllm-project/vllm-ascend/issues/15503", "T = 1, S > 512 with a mask: it is ignored past column 512",
            "size_mask_dropped_past"),
    _sizes_alone("tenstorrent/tt-metal/issues/32502", "T or S no multiple of 32 with a mask",
                 "size_mask_stride_padded size_mask_dropped_in_tail"),
    _sizes_alone("microsoft/onnxruntime/pull/14517", "T > 32 with a relative position bias", "size_bias_row_wraps"),
    _thread("NVIDIA/TensorRT-LLM/pull/1076", "T = S = 32768 with a relative bias: its offset may overflow",
            "size_bias_row_wraps"),
    _thread("pytorch/pytorch/issues/127055", "S > 512 with a mask: rows whose first block is hidden are NaN",
            "blocks_hidden_first_nan"),
    _thread("bledden/triton-msl/pull/7", "S a multiple of the tile: the causal mask is dropped",
            "size_causal_dropped_aligned"),
    _thread("sgl-project/sglang/pull/22434", "causal, S > 4096: a block all in the future of a tile's first rows",
            "size_causal_future_block_nan"),
    _thread("NVIDIA/cutlass/pull/2480", "causal, T no multiple of the tile: too few tiles of keys, by a review",
            "size_causal_tail_short"),
)

_OF_WIDTHS_AND_GRIDS = (
    _thread("triton-lang/triton/issues/621", "D = 128: the first 64 features only", "size_width_beyond_ignored"),
    _thread("66RING/tiny-flash-attention/issues/12", "D = 63, or S no power of two: tiles are loaded without a mask",
            "size_width_padding_read"),
    _thread("mni-ml/framework/pull/38", "Dv > 32: the launch has 32 lanes, the other columns stay 0",
            "size_columns_beyond_zero"),
    _sizes_alone("flashinfer-ai/flashinfer/issues/1993", "D = 256", "size_width_second_tile_twice"),
    _thread("pytorch/pytorch/pull/177985", "H > 65535: beyond the grid", "size_heads_beyond_zero"),
    _thread("NVIDIA/FasterTransformer/pull/524", "B·H·T·S > 2^31: a slice's offset in 32 bits", "size_grid_wraps"),
    _thread("fla-org/flash-linear-attention/issues/1080", "B·T·H·D > 2^31: the last batch entry's offset wraps",
            "size_batch_keys_of_first"),
    _thread("HazyResearch/HipKittens/pull/22", "G other than Hkv: heads collide", "size_groups_dealt"),
    _sizes_alone("mlc-ai/mlc-llm/pull/2543", "G = 6", "size_groups_rounded_down size_groups_rounded_up"),
    _sizes_alone("apache/tvm/pull/17074", "G = 6", "size_groups_rounded_down size_groups_rounded_up"),
)

_LEFT_OUT = (
    _left_out("pytorch/pytorch/issues/142228", "B or H > 65535", Outside.REFUSAL),
    _left_out("microsoft/onnxruntime/issues/28357", "Dv other than D", Outside.REFUSAL),
    _left_out("ggml-org/llama.cpp/issues/7343", "Dv other than D", Outside.REFUSAL),
    _left_out("mlc-ai/mlc-llm/pull/1889", "D no multiple of 32", Outside.REFUSAL),
    _left_out("lucidrains/flash-attention-jax/issues/14", "T > 1024, no multiple of 1024", Outside.REFUSAL),
    _left_out("pytorch/xla/pull/8671", "S no multiple of 512", Outside.REFUSAL),
    _left_out("facebookresearch/xformers/issues/813", "S no multiple of 8 with a bias", Outside.REFUSAL),
    _left_out("pytorch/pytorch/issues/151359", "T = 1, G = 6", Outside.REFUSAL),
    _left_out("fla-org/flash-linear-attention/issues/1029", "H no multiple of Hkv", Outside.REFUSAL),
    _left_out("NVIDIA/cutlass/issues/2336", "causal, T other than S", Outside.CONVENTION),
    _left_out("ml-explore/mlx/issues/2835", "causal, T other than S", Outside.CONVENTION),
    _left_out("gittensor-ai-lab/sparkinfer/pull/4", "causal, T other than S", Outside.CONVENTION),
    _left_out("pytorch/pytorch/issues/153799", "S no multiple of 128", Outside.BACKWARD),
    _left_out("amorehead/jvp_flash_attention/issues/13", "S no multiple of 32", Outside.BACKWARD),
    _left_out("PriorLabs/TabPFN/pull/1184", "B·H·T·D > 2^31", Outside.BACKWARD),
    _left_out("flashinfer-ai/flashinfer/issues/4347", "pages of more than 128 keys", Outside.CACHE),
    _left_out("vllm-project/vllm/pull/2231", "a window, S no multiple of the page", Outside.CACHE),
    _left_out("meta-pytorch/attention-gym/issues/50", "T = S = 137: the last 9 rows differ", Outside.UNTOLD),
    _left_out("Dao-AILab/flash-attention/issues/47", "S = 350000: other results with another B", Outside.UNTOLD),
)

THREADS: tuple[Thread, ...] = (*_OF_KEYS_AND_ROWS, *_OF_SPLITS, *_OF_KEYWORDS, *_OF_WIDTHS_AND_GRIDS, *_LEFT_OUT)
"""Every thread once, those that have a fault first."""


def link_of(fault: str) -> str:
    """The first thread that tells this very mistake; "" where none does."""
    return next((each.link for each in THREADS
                 if each.told and not isinstance(each.faults, Outside) and fault in each.faults), "")


def size_threads() -> str:
    """The threads as a table in Markdown."""
    return "\n".join(["| thread | at which sizes | faults |", "|---|---|---|", *map(_row, THREADS)])


def _row(thread: Thread) -> str:
    *_, library, _, number = thread.link.split("/")
    return f"| [{library} {number}]({thread.link}) | {thread.sizes} | {_faults(thread)} |"


def _faults(thread: Thread) -> str:
    if isinstance(thread.faults, Outside):
        return f"none: {thread.faults.value}"
    named = ", ".join(f"`{name}`" for name in thread.faults)
    return named if thread.told else f"{named} (the thread tells the sizes alone)"


def family_table() -> str:
    """The families as a table in Markdown, with what seed 0 draws."""
    return "\n".join(["| family | what goes wrong | seed 0: where |", "|---|---|---|", *_family_rows()])


def _family_rows() -> Iterator[str]:
    for family in ALL_FAMILIES:
        yield f"| `{family.name}` | {family.mechanism} | {reach_of(family.drawn(0), family.needs)} |"
