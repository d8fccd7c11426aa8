"""A kernel of FlashInfer-Bench as a function that attnspec judges: packed for `gqa_ragged`, paged for `gqa_paged`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attnspec.kernels.definitions import LAST_PAGE, RAGGED, Definition

Array = Any
Kernel = Callable[..., Any]

CONVENTIONS = {"causal_alignment": "bottom_right", "hidden_row": "zeros", "grouped_heads": "repeat", "lse_base": "two",
               "lse_of_hidden_row": "minus_infinity"}
"""As the references of the definitions have it."""


def as_attention(definition: Definition, kernel: Kernel, *, is_destination_passing: bool,
                 device: str = "cpu") -> Kernel:
    """The kernel in the form that attnspec knows, with what is constant in it declared.

    is_destination_passing: whether outputs are handed over, to be filled.  device: where the kernel wants its arrays.
    """
    def called(given: dict[str, Array], rows: int) -> tuple[Array, Array]:
        """Output (N,H,D) and log-sum-exp (N,H) of so many rows of queries."""
        inputs = [_on(given[name], device) for name in definition.inputs]
        if is_destination_passing:
            outputs = _allocated(definition, given["q"], rows, device)
            kernel(*inputs, *outputs)
        else:
            outputs = _several(kernel(*inputs))
        output, lse = (*outputs, None)[:2]
        return output.cpu(), None if lse is None else lse.cpu()

    attend = _ragged(called) if definition.inputs == RAGGED else _paged(definition, called)
    return _declared(attend, definition)


def _ragged(called: Callable[..., tuple[Array, Array]]) -> Kernel:
    """Of queries (N,H,D) and keys (N,Hkv,D), one sequence behind the other."""
    def attend(query: Array, key: Array, value: Array, *, cu_query: Array, cu_key: Array, causal: bool = True,
               scale: float | None = None, return_lse: bool = False) -> Any:  # noqa: ANN401  (a pair with `return_lse`)
        """Query (Nq,H,D), key and value (Nk,Hkv,D), borders (B+1,) -> (Nq,H,D), and with `return_lse` (Nq,H)."""
        del causal  # as the definition says
        output, lse = called({"q": query, "k": key, "v": value, "qo_indptr": cu_query, "kv_indptr": cu_key,
                              "sm_scale": _scale(query, scale)}, len(query))
        return (output, lse) if return_lse else output

    return attend


def _paged(definition: Definition, called: Callable[..., tuple[Array, Array]]) -> Kernel:
    """Of queries (B,H,T,D), with keys and values in pages."""
    def attend(query: Array, key: Array, value: Array, *, block_table: Array, key_lengths: Array, causal: bool = True,
               scale: float | None = None, return_lse: bool = False) -> Any:  # noqa: ANN401  (a pair with `return_lse`)
        """Query (B,H,T,D), pools (pages,page,Hkv,D), table (B,N), lengths (B,) -> (B,H,T,D), and (B,H,T)."""
        del causal  # as the definition says
        B, H, T, D = query.shape
        slots = definition.page
        output, lse = called({
            "q": query.swapaxes(1, 2).reshape(B * T, H, D), "k_cache": key.reshape(-1, slots, *key.shape[2:]),
            "v_cache": value.reshape(-1, slots, *value.shape[2:]), "qo_indptr": _borders(key_lengths, [T] * B),
            **_indices(block_table, key_lengths, slots, key.shape[1] // slots),
            "sm_scale": _scale(query, scale)}, B * T)
        spread = output.reshape(B, T, H, D).swapaxes(1, 2)
        return (spread, lse.reshape(B, T, H).swapaxes(1, 2)) if return_lse else spread

    return attend


def _indices(block_table: Array, key_lengths: Array, slots: int, parts: int) -> dict[str, Array]:
    """FlashInfer's three arrays of a table (B,N) whose pages consist of so many of its own, and of lengths (B,)."""
    used, last = [], []
    for row, length in zip(block_table.tolist(), key_lengths.tolist(), strict=True):
        used.append([row[page // parts] * parts + page % parts for page in range(-(-length // slots))])
        last.append((length - 1) % slots + 1 if length else 0)
    return {"kv_indptr": _borders(key_lengths, [len(each) for each in used]), LAST_PAGE: key_lengths.new_tensor(last),
            "kv_indices": key_lengths.new_tensor([page for each in used for page in each])}


def _borders(like: Array, counts: Sequence[int]) -> Array:
    """(B+1,) of these counts, of the dtype of another tensor."""
    return like.new_tensor([sum(counts[:end]) for end in range(len(counts) + 1)])


def _scale(query: Array, scale: float | None) -> float:
    """As it is given, or that of the last axis of (N,H,D)."""
    return query.shape[-1] ** -0.5 if scale is None else scale


def _on(value: Array, device: str) -> Array:
    """A tensor of any shape, where the kernel wants it; a number stays as it is."""
    return value.to(device) if hasattr(value, "to") else value


def _several(returned: Any) -> tuple[Array, ...]:  # noqa: ANN401  (whatever the kernel returns)
    """One array or several, of any shape, in a tuple."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _allocated(definition: Definition, query: Array, rows: int, device: str) -> tuple[Array, ...]:
    """Output (N,H,D) and log-sum-exp (N,H) float32, filled with NaN: what a kernel does not write is seen."""
    import torch  # noqa: PLC0415  (weight: who looks the definitions up needs none)

    shape = (rows, definition.heads, definition.head_dim)
    output = torch.full(shape, torch.nan, dtype=query.dtype, device=device)
    lse = torch.full(shape[:2], torch.nan, dtype=torch.float32, device=device)
    return (output, lse)[:len(definition.outputs)]


def _declared(attend: Any, definition: Definition) -> Kernel:  # noqa: ANN401  (a function is given attributes)
    """With what attnspec is to know of it: see docs/writing-an-adapter.md."""
    group = definition.heads // definition.kv_heads
    attend.lift, attend.dtypes, attend.grouped = "torch", [definition.dtype], True
    attend.causal_only, attend.ties_value_width = definition.is_causal, True
    attend.conventions = dict(CONVENTIONS)
    attend.refuses = [f"H != {definition.heads}", f"G != {group}", f"D != {definition.head_dim}",
                      *(["T != 1"] if definition.is_decode else [] if definition.is_causal else ["causal"])]
    if definition.page:
        attend.page_multiple = definition.page
    return attend  # type: ignore[no-any-return]  # the function that came
