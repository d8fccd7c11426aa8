/** For the scripts beside this file: a model of one node, made and run. */

import * as ort from "onnxruntime-web";

import { modelOf } from "../model.mjs";

ort.env.wasm.numThreads = 1;
const LOGS_NOTHING = { logSeverityLevel: 4 };

/** A tensor of these dimensions; values: one for all, or an array. */
export function tensor(dims, values, type = "float32") {
  const size = dims.reduce((product, length) => product * length, 1);
  return new ort.Tensor(type, Array.isArray(values) ? values : new Array(size).fill(values), dims);
}

/** The entries of output Y. node: as modelOf takes it.  inputs: [name, tensor] of each, null where one is left out. */
export async function output(node, inputs) {
  const { type, dims } = inputs[0][1];
  const more = node.operator === "GroupQueryAttention" ? [["present_key", type, 4], ["present_value", type, 4]] : [];
  const declared = inputs.map((each) => each && [each[0], each[1].type, each[1].dims.length]);
  const model = modelOf({ opset: 23, attributes: {}, ...node, inputs: declared, outputs: [["Y", type, dims.length], ...more] });
  const session = await ort.InferenceSession.create(model, LOGS_NOTHING);
  return Array.from((await session.run(Object.fromEntries(inputs.filter(Boolean)))).Y.data);
}

/** com.microsoft.MultiHeadAttention of one head, query (1,T,D), key and value (1,S,D), with a bias (1,1,T,S) or none. */
export function multiHead(attributes, query, key, value, bias = null) {
  const node = { operator: "MultiHeadAttention", domain: "com.microsoft", attributes: { num_heads: { i: 1 }, ...attributes } };
  return output(node, [["Q", query], ["K", key], ["V", value], null, null, bias && ["bias", bias]]);
}

/** com.microsoft.GroupQueryAttention of one head on a prompt, all three (1,T,D), with a bias (1,1,T,T) or none. */
export function grouped(attributes, query, key, value, bias = null) {
  const T = query.dims[1];
  const node = { operator: "GroupQueryAttention", domain: "com.microsoft",
                 attributes: { num_heads: { i: 1 }, kv_num_heads: { i: 1 }, ...attributes } };
  return output(node, [["Q", query], ["K", key], ["V", value], null, null, ["ends", tensor([1], T - 1, "int32")],
                       ["total", tensor([1], T, "int32")], null, null, null, bias && ["bias", bias]]);
}
