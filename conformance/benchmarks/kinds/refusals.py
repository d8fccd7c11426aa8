"""Clear refusals that go further than what is not taken, and hide that what is taken is ignored."""

import numpy as np


def attended(query, key, value, *, bias=None, visible=None, softcap=None):
    key, value = (np.repeat(each.astype(np.float32), query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    scores = query.astype(np.float32) @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
    if softcap is not None:
        scores = np.tanh(scores / np.float32(softcap)) * np.float32(softcap)
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) @ value).astype(query.dtype)


def refuse_bias_of_several_heads(query, bias):
    if bias is not None and query.shape[1] > 1:
        raise NotImplementedError("a bias is taken with one head (num_heads = 1) only")


def right_bias_of_one_head(query, key, value, *, bias=None):
    refuse_bias_of_several_heads(query, bias)
    return attended(query, key, value, bias=bias)


def bias_of_one_head_ignored(query, key, value, *, bias=None):
    refuse_bias_of_several_heads(query, bias)
    return attended(query, key, value)


def refuse_window_of_several_queries(query, window):
    if window is not None and query.shape[2] > 1:
        raise ValueError("window: only a single query (T = 1) may have one, as in decoding")


def in_window(query, key, window):
    left, right = window or (None, None)
    slot = np.arange(key.shape[2])
    place = slot[-1] - query.shape[2] + 1 + np.arange(query.shape[2])[:, None]
    visible = np.ones((query.shape[2], key.shape[2]), bool)
    if left is not None:
        visible &= slot >= place - left
    if right is not None:
        visible &= slot <= place + right
    return visible


def right_window_of_one_query(query, key, value, *, window=None):
    refuse_window_of_several_queries(query, window)
    return attended(query, key, value, visible=in_window(query, key, window))


def window_of_one_query_ignored(query, key, value, *, window=None):
    refuse_window_of_several_queries(query, window)
    return attended(query, key, value)


def refuse_softcap_of_groups(query, key, softcap):
    assert softcap is None or query.shape[1] == key.shape[1], "softcap is not supported with grouped heads (Hkv < H)"


def right_softcap_of_equal_heads(query, key, value, *, softcap=None):
    refuse_softcap_of_groups(query, key, softcap)
    return attended(query, key, value, softcap=softcap)


def softcap_of_equal_heads_ignored(query, key, value, *, softcap=None):
    refuse_softcap_of_groups(query, key, softcap)
    return attended(query, key, value)


def refuse_mask_of_many_keys(key, mask):
    if mask is not None and key.shape[2] > 8:
        raise ValueError(f"mask: at most 8 keys may be masked, and there are {key.shape[2]} (S)")


def right_mask_of_few_keys(query, key, value, *, mask=None):
    refuse_mask_of_many_keys(key, mask)
    return attended(query, key, value, visible=mask)


def mask_of_few_keys_ignored(query, key, value, *, mask=None):
    refuse_mask_of_many_keys(key, mask)
    return attended(query, key, value)
