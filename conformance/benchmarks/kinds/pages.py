"""Keys and values in pages: where a key stands is a number that some width has to hold."""

import numpy as np


def softmax(scores):
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def attended(query, key, value, key_lengths, causal):
    """(B,H,T,D), (B,S,Hkv,D) and (B,S,Hkv,Dv), of which each batch entry has its own number of keys."""
    T, S = query.shape[2], key.shape[1]
    own = np.arange(S) < key_lengths[:, None]
    key, value = (np.where(own[:, :, None, None], each, 0).astype(np.float32).swapaxes(1, 2) for each in (key, value))
    key, value = (np.repeat(each, query.shape[1] // each.shape[1], axis=1) for each in (key, value))
    scores = query.astype(np.float32) @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
    visible = own[:, None, None]
    if causal:
        visible = visible & np.tri(T, S, dtype=bool)
    return (softmax(np.where(visible, scores, -np.inf)) @ value).astype(query.dtype)


def gathered(pages, block_table, key_lengths, slot_number):
    """(B,N·page,Hkv,·): the keys or values of each batch entry. slot_number: page and slot to a place among all."""
    page = pages.shape[1]
    place = np.arange(block_table.shape[1] * page)
    numbers = np.where(place < key_lengths[:, None], block_table[:, place // page], 0)
    slots = pages.reshape(-1, *pages.shape[2:])
    return slots[slot_number(numbers, place % page, page)]


def paged(query, key, value, block_table, key_lengths, causal, slot_number):
    key, value = (gathered(each, block_table, key_lengths, slot_number) for each in (key, value))
    return attended(query, key, value, key_lengths, causal)


def right_pages(query, key, value, *, block_table, key_lengths, causal=False):
    return paged(query, key, value, block_table, key_lengths, causal, lambda number, slot, page: number * page + slot)


def slots_in_fifteen_bits(query, key, value, *, block_table, key_lengths, causal=False):
    return paged(query, key, value, block_table, key_lengths, causal,
                 lambda number, slot, page: (number * page + slot) & 0x7FFF)


def pages_in_a_byte(query, key, value, *, block_table, key_lengths, causal=False):
    return paged(query, key, value, block_table, key_lengths, causal,
                 lambda number, slot, page: number.astype(np.uint8).astype(int) * page + slot)


def slots_lost_in_pages_of_64(query, key, value, *, block_table, key_lengths, causal=False):
    def slot_number(number, slot, page):  # the kernel for pages of 64 loads 60 of them
        return number * page + (np.minimum(slot, 59) if page == 64 else slot)

    return paged(query, key, value, block_table, key_lengths, causal, slot_number)


def slots_lost_in_pages_of_128(query, key, value, *, block_table, key_lengths, causal=False):
    def slot_number(number, slot, page):
        return number * page + (np.minimum(slot, 95) if page == 128 else slot)

    return paged(query, key, value, block_table, key_lengths, causal, slot_number)
