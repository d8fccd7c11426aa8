/** ONNX Runtime Web: a logit beyond 65504 makes the output of Attention-23 NaN in float16. */

import * as ort from "onnxruntime-web";

import { output, tensor } from "./node_of.mjs";

const dims = [1, 1, 1, 4];
const half = (bits) => new ort.Tensor("float16", new Uint16Array(4).fill(bits), dims);
const attend = (query, value) => output({ operator: "Attention" }, [["Q", query], ["K", query], ["V", value]]);

const single = (await attend(tensor(dims, 240), tensor(dims, 3)))[0]; // the logit is 240 · 240 · 4 / sqrt(4) = 115,200
const bits = (await attend(half(0x5b80), half(0x4200)))[0]; // 240 and 3 in float16
const isNaN16 = (bits & 0x7fff) > 0x7c00;
console.log(`one key, value 3, logit 115,200: float32 ${single}, float16 ${isNaN16 ? NaN : `0x${bits.toString(16)}`}`);
process.exit(single === 3 && isNaN16 ? 1 : 0);
