/** ONNX Runtime Web: a session with Attention-23 whose scale is 0 or negative cannot be made. */

import { output, tensor } from "./node_of.mjs";

const ones = tensor([1, 1, 3, 2], 1);
const refused = [];
for (const scale of [0.5, 0, -0.5]) {
  try {
    await output({ operator: "Attention", attributes: { scale: { f: scale } } }, [["Q", ones], ["K", ones], ["V", ones]]);
    console.log(`scale=${scale}: accepted`);
  } catch (error) {
    refused.push(scale);
    console.log(`scale=${scale}: ${error.message.trim().slice(-80)}`);
  }
}
process.exit(String(refused) === "0,-0.5" ? 1 : 0);
