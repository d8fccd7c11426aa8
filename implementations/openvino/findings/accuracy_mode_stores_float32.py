"""OpenVINO on CPU: in execution mode ACCURACY, KV_CACHE_PRECISION=u8 is told as set, and nothing is stored in u8."""

import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.op import util

exact = {}
for mode in ("PERFORMANCE", "ACCURACY"):
    (query, new, mask), caches = (ops.parameter([1, 1, -1, size], np.float32) for size in (4, 4, -1)), []
    for name in ("keys", "values"):
        info = util.VariableInfo()
        info.variable_id, info.data_type, info.data_shape = name, ov.Type.f32, ov.PartialShape([1, 1, -1, 4])
        caches.append(util.Variable(info))
    begin, beam = ops.constant(np.zeros((1, 1, 0, 4), np.float32)), ops.parameter([1], np.int32)
    reads = [ops.concat([ops.gather(ops.read_value(begin, each), beam, np.int64(0)), new], 2) for each in caches]
    sinks = [ops.assign(read, each) for read, each in zip(reads, caches)]
    results = [ops.result(ops.scaled_dot_product_attention(query, *reads, mask))]
    model = ov.Model(results=results, sinks=sinks, parameters=[query, new, mask, beam], name="decoder")
    config = {"EXECUTION_MODE_HINT": mode, "KV_CACHE_PRECISION": "u8", "INFERENCE_PRECISION_HINT": "f32"}
    compiled, tokens = ov.Core().compile_model(model, "CPU", config), np.random.rand(1, 1, 6, 4).astype(np.float32)
    run = compiled.create_infer_request()
    run.infer([tokens, tokens, np.zeros((1, 1, 6, 6), np.float32), np.zeros(1, np.int32)])
    exact[mode] = all(np.array_equal(each.state.data, tokens) for each in run.query_state())
    print(f"{mode}: {compiled.get_property('KV_CACHE_PRECISION')}; the cache holds the very numbers: {exact[mode]}")
sys.exit(int(exact["ACCURACY"] and not exact["PERFORMANCE"]))
