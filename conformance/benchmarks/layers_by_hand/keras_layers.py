"""Layers of Keras."""

import keras
from keras import layers, ops


class KerasSelfAttention(layers.Layer):
    """Dense layers that are made with the layer; attention_mask (B, T, S) is True where a query may look."""

    def __init__(self, d_model, num_heads, **kwargs):
        super().__init__(**kwargs)
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.num_heads, self.depth = num_heads, d_model // num_heads
        self.wq, self.wk, self.wv = layers.Dense(d_model), layers.Dense(d_model), layers.Dense(d_model)
        self.dense = layers.Dense(d_model)

    def split_heads(self, x):
        return ops.transpose(ops.reshape(x, (ops.shape(x)[0], -1, self.num_heads, self.depth)), (0, 2, 1, 3))

    def call(self, x, attention_mask=None):
        q, k, v = self.split_heads(self.wq(x)), self.split_heads(self.wk(x)), self.split_heads(self.wv(x))
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.depth ** 0.5
        if attention_mask is not None:
            hidden = ops.logical_not(ops.expand_dims(attention_mask, 1))
            logits = ops.where(hidden, float("-inf"), logits)
        out = ops.transpose(ops.matmul(ops.softmax(logits, axis=-1), v), (0, 2, 1, 3))
        return self.dense(ops.reshape(out, ops.shape(x)))


class KerasBuilt(layers.Layer):
    """Weights of its own, made when it sees its input."""

    def __init__(self, heads=4, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, input_shape):
        d = input_shape[-1]
        self.kernel_qkv = self.add_weight(name="kernel_qkv", shape=(d, 3 * d), initializer="glorot_uniform")
        self.kernel_out = self.add_weight(name="kernel_out", shape=(d, d), initializer="glorot_uniform")

    def call(self, inputs):
        b, t, d = ops.shape(inputs)
        q, k, v = ops.split(ops.matmul(inputs, self.kernel_qkv), 3, axis=-1)
        q, k, v = (ops.reshape(z, (b, t, self.heads, d // self.heads)) for z in (q, k, v))
        w = ops.softmax(ops.einsum("bthd,bshd->bhts", q, k) / (d // self.heads) ** 0.5, axis=-1)
        o = ops.reshape(ops.einsum("bhts,bshd->bthd", w, v), (b, t, d))
        return ops.matmul(o, self.kernel_out)


@keras.saving.register_keras_serializable()
class KerasCross(layers.Layer):
    """EinsumDense, queries and a context."""

    def __init__(self, n_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        self.n_heads, self.key_dim = n_heads, key_dim

    def build(self, query_shape, context_shape):
        heads = (None, self.n_heads, self.key_dim)
        self.q = layers.EinsumDense("btm,mhd->bthd", output_shape=heads, bias_axes="hd")
        self.k = layers.EinsumDense("btm,mhd->bthd", output_shape=heads, bias_axes="hd")
        self.v = layers.EinsumDense("btm,mhd->bthd", output_shape=heads, bias_axes="hd")
        self.o = layers.EinsumDense("bthd,hdm->btm", output_shape=(None, query_shape[-1]), bias_axes="m")
        self.q.build(query_shape)
        self.k.build(context_shape)
        self.v.build(context_shape)
        self.o.build((query_shape[0], query_shape[1], self.n_heads, self.key_dim))

    def call(self, query, context):
        q, k, v = self.q(query), self.k(context), self.v(context)
        s = ops.einsum("bthd,bshd->bhts", q, k) * self.key_dim ** -0.5
        return self.o(ops.einsum("bhts,bshd->bthd", ops.softmax(s, axis=-1), v))
