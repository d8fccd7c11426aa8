/** ONNX Runtime Web: Attention-23 refuses a mask (B,H,1,S), which ONNX says is broadcast to (B,H,T,S). */

import { output, tensor } from "./node_of.mjs";

const ones = tensor([1, 1, 3, 2], 1);
const refused = [];
for (const queries of [3, 1]) {
  const mask = tensor([1, 1, queries, 3], 1, "bool");
  try {
    await output({ operator: "Attention" }, [["Q", ones], ["K", ones], ["V", ones], ["mask", mask]]);
    console.log(`a mask (1,1,${queries},3): accepted`);
  } catch (error) {
    refused.push(queries);
    console.log(`a mask (1,1,${queries},3): ${error.message.trim().slice(-80)}`);
  }
}
process.exit(String(refused) === "1" ? 1 : 0);
