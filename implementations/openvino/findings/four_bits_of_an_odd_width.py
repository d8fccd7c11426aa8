"""OpenVINO on CPU: a cache in u4 is read wrongly where head_dim is odd. Bias lets each query see one stored token."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op import util

wrong, config = {}, {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "u4"}
for width in (4, 5):
    (query, new, bias), caches = (ops.parameter([1, 1, -1, size], np.float32) for size in (width, width, -1)), []
    for name in ("keys", "values"):
        info = util.VariableInfo()
        info.variable_id, info.data_type, info.data_shape = name, ov.Type.f32, ov.PartialShape([1, 1, -1, width])
        caches.append(util.Variable(info))
    begin, beam = ops.constant(np.zeros((1, 1, 0, width), np.float32)), ops.parameter([1], np.int32)
    reads = [ops.concat([ops.gather(ops.read_value(begin, each), beam, np.int64(0)), new], 2) for each in caches]
    sinks = [ops.assign(read, each) for read, each in zip(reads, caches)]
    node = ops.scaled_dot_product_attention(query, *reads, bias)
    model = ov.Model(results=[ops.result(node)], sinks=sinks, parameters=[query, new, bias, beam], name="decoder")
    run = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    tokens = np.random.default_rng(0).standard_normal((1, 1, 6, width)).astype(np.float32)
    run.infer([tokens, tokens, np.zeros((1, 1, 6, 6), np.float32), np.zeros(1, np.int32)])
    seen = np.where(np.arange(12) == np.arange(6)[:, None], 0, -np.inf).astype(np.float32)[None, None]
    read_back = run.infer([tokens, tokens, seen, np.zeros(1, np.int32)])[0]
    wrong[width] = np.max(np.abs(read_back - tokens) / (np.ptp(tokens, axis=-1, keepdims=True) / 15))
    print(f"head_dim {width}: read back within {wrong[width]:.2f} steps, where 0.5 is what rounding to a code may do")
sys.exit(int(wrong[4] < 0.6 and wrong[5] > 1))
