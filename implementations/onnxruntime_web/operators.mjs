/** ONNX Runtime Web's attention operators as functions of query (B,H,T,D), key (B,Hkv,S,D), value (B,Hkv,S,Dv). */

import * as ort from "onnxruntime-web";

import { biasWhere, blank, headsApart, headsSideBySide, resized } from "./arrays.mjs";
import { modelOf } from "./model.mjs";

ort.env.wasm.numThreads = 1; // workers share the cores already, and threads change the order of summation

const WEIGHTS = 3; // qk_matmul_output_mode: the fourth output is what comes out of the softmax
const FATAL_ONLY = 4; // an error is thrown as well, and it warns where an inferred shape is not the one that comes out
const MOST = 64; // sessions that are kept
const sessions = new Map();

/** Attention-23 of inputs (B,H,L,D). */
export function attention(query, key, value, keywords) {
  return onnxAttention(query, key, value, keywords, 23);
}

/** Attention-24, likewise. */
export function attention_24(query, key, value, keywords) {
  return onnxAttention(query, key, value, keywords, 24);
}

/** Attention-23, the graph run as it stands. */
export function attention_unoptimised(query, key, value, keywords) {
  return onnxAttention(query, key, value, keywords, 23, "disabled");
}

/** As `attention`, without its causal flag. */
export function attention_both_ways(query, key, value, keywords) {
  return onnxAttention(query, key, value, keywords, 23);
}

/** Attention-23 as decoders export it: nothing optional. */
export function attention_bare(query, key, value) {
  return onnxAttention(query, key, value, {}, 23);
}

/** com.microsoft.MultiHeadAttention, which takes (B,L,H·D). Its own mask tells padding, so ours travels as a bias. */
export function multi_head_attention(query, key, value, keywords) {
  return multi_head_attention_causal(query, key, value, keywords);
}

/** As `multi_head_attention`, with its causal flag. */
export async function multi_head_attention_causal(query, key, value, { bias, causal, scale }) {
  const inputs = [["Q", headsSideBySide(query)], ["K", headsSideBySide(key)], ["V", headsSideBySide(value)], null, null,
                  bias ? ["attention_bias", bias] : null];
  const heads = query.shape[1];
  const attributes = { num_heads: { i: heads }, unidirectional: { i: causal ? 1 : 0 }, ...floats({ scale }) };
  const node = { operator: "MultiHeadAttention", domain: "com.microsoft", opset: 21, attributes };
  const { Y } = await run(node, inputs, [["Y", query.dtype, 3]]);
  return headsApart(Y, heads);
}

/**
 * com.microsoft.GroupQueryAttention on a prompt without a past: as many keys as queries. Its window, which needs the
 * causal flag, counts the query's own place. It takes heads whose width is a multiple of 8, so zeros are put beside
 * narrower ones, and the scale is then told.
 */
export async function group_query_attention(query, key, value, { bias, causal, scale, softcap, window }) {
  const [B, heads, T, D] = query.shape;
  const width = 8 * Math.ceil(D / 8);
  const [Q, K, V] = [query, key, value].map((array) => headsSideBySide(resized(array, width)));
  const inputs = [["Q", Q], ["K", K], ["V", V], null, null, ["seqlens_k", integers([B], T - 1)],
                  ["total_sequence_length", integers([1], T)], null, null, null, bias ? ["attention_bias", bias] : null];
  const reach = window?.[0] ?? null; // to the left; there is no right under the causal mask
  const attributes = { num_heads: { i: heads }, kv_num_heads: { i: key.shape[1] }, causal: { i: causal ? 1 : 0 },
                       ...floats({ scale: scale ?? (width === D ? null : 1 / Math.sqrt(D)), softcap }),
                       ...(reach === null ? {} : { local_window_size: { i: reach + 1 } }) };
  const node = { operator: "GroupQueryAttention", domain: "com.microsoft", opset: 21, attributes };
  const { Y } = await run(node, inputs, [["Y", query.dtype, 3], ["present_key", query.dtype, 4],
                                         ["present_value", query.dtype, 4]]);
  return resized(headsApart(Y, heads), D);
}

const integers = (shape, value) => {
  const array = blank("int32", shape);
  array.data.fill(value);
  return array;
};

const ALL = { mask: null, bias: null, scale: null, softcap: null, return_weights: false };
attention.keywords = attention_24.keywords = attention_unoptimised.keywords = { ...ALL, causal: false };
attention_both_ways.keywords = ALL;
attention_bare.keywords = {};
multi_head_attention.keywords = { bias: null, scale: null };
multi_head_attention_causal.keywords = { bias: null, causal: false, scale: null };
group_query_attention.keywords = { bias: null, causal: false, scale: null, softcap: null, window: null };

/** The output, or the pair of output and weights. There is one input for mask and bias. */
async function onnxAttention(query, key, value, keywords, opset, level = "all") {
  const { mask, bias, causal, scale, softcap, return_weights } = keywords;
  const added = mask && bias ? biasWhere(mask, bias) : mask ?? bias;
  const inputs = [["Q", query], ["K", key], ["V", value], ...(added ? [["attn_mask", added]] : [])];
  const outputs = [["Y", query.dtype, 4], ...(return_weights ? [null, null, ["weights", query.dtype, 4]] : [])];
  const attributes = { ...(causal ? { is_causal: { i: 1 } } : {}), ...floats({ scale, softcap }),
                       ...(return_weights ? { qk_matmul_output_mode: { i: WEIGHTS } } : {}) };
  const found = await run({ operator: "Attention", opset, attributes }, inputs, outputs, level);
  return return_weights ? [found.Y, found.weights] : found.Y;
}

const floats = (given) => Object.fromEntries(
  Object.entries(given).flatMap(([name, f]) => (f === null || f === undefined ? [] : [[name, { f }]])));

/** The outputs of one node by name. */
async function run(node, inputs, outputs, level = "all") {
  const declared = inputs.map((each) => each && [each[0], each[1].dtype, each[1].shape.length]);
  const session = await sessionOf({ ...node, inputs: declared, outputs }, level);
  const given = inputs.filter(Boolean);
  const feeds = given.map(([name, { dtype, shape, data }]) => [name, new ort.Tensor(dtype, data, shape)]);
  const found = await session.run(Object.fromEntries(feeds));
  return Object.fromEntries(Object.entries(found).map(([name, { type, dims, data }]) =>
    [name, { dtype: type, shape: [...dims], data }]));
}

async function sessionOf(node, graphOptimizationLevel) {
  const model = modelOf(node);
  const key = graphOptimizationLevel + Buffer.from(model).toString("latin1");
  if (!sessions.has(key)) {
    const options = { graphOptimizationLevel, executionProviders: ["wasm"], logSeverityLevel: FATAL_ONLY };
    sessions.set(key, await ort.InferenceSession.create(model, options));
  }
  if (sessions.size > MOST) await release(sessions.keys().next().value);
  return sessions.get(key);
}

async function release(key) {
  const session = sessions.get(key);
  sessions.delete(key);
  await session.release();
}

/** Give back every session. */
export async function forget() {
  for (const key of [...sessions.keys()]) await release(key);
}

/** The version of the library. */
export const version = ort.env.versions.web;
