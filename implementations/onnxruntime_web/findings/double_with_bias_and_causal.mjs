/** ONNX Runtime Web: Attention-23 in float64 with an additive mask and is_causal does not load; in float32 it does. */

import { output, tensor } from "./node_of.mjs";

const refused = [];
for (const type of ["float32", "float64"]) {
  const ones = tensor([1, 1, 3, 2], 1, type);
  const node = { operator: "Attention", attributes: { is_causal: { i: 1 } } };
  try {
    await output(node, [["Q", ones], ["K", ones], ["V", ones], ["M", tensor([1, 1, 3, 3], 0, type)]]);
    console.log(`${type}: loaded`);
  } catch (error) {
    refused.push(type);
    console.log(`${type}: ${error.message.trim().slice(-150)}`);
  }
}
process.exit(String(refused) === "float64" ? 1 : 0);
