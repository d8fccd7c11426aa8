"""OpenVINO on CPU: what `VariableState.state` gives of a cache in u4 is not what attention reads back from it."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op import util

apart = {}
for precision, largest in (("u8", 255), ("u4", 15)):
    (query, new, mask), caches = (ops.parameter([1, 1, -1, size], np.float32) for size in (4, 4, -1)), []
    for name in ("keys", "values"):
        info = util.VariableInfo()
        info.variable_id, info.data_type, info.data_shape = name, ov.Type.f32, ov.PartialShape([1, 1, -1, 4])
        caches.append(util.Variable(info))
    begin, beam = ops.constant(np.zeros((1, 1, 0, 4), np.float32)), ops.parameter([1], np.int32)
    reads = [ops.concat([ops.gather(ops.read_value(begin, each), beam, np.int64(0)), new], 2) for each in caches]
    sinks = [ops.assign(read, each) for read, each in zip(reads, caches)]
    model = ov.Model(results=[ops.result(ops.scaled_dot_product_attention(query, *reads, mask))],
                     sinks=sinks, parameters=[query, new, mask, beam], name="decoder")
    config = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": precision}
    run = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    tokens = np.random.default_rng(0).standard_normal((1, 1, 6, 4)).astype(np.float32)
    run.infer([tokens, tokens, np.zeros((1, 1, 6, 6), np.float32), np.zeros(1, np.int32)])
    step = np.ptp(tokens, axis=-1, keepdims=True) / largest
    apart[precision] = max(np.max(np.abs(each.state.data - tokens) / step) for each in run.query_state())
    print(f"{precision}: the state is within {apart[precision]:.2f} steps of what was stored; a code is within 0.5")
sys.exit(int(apart["u8"] < 1 < apart["u4"]))
