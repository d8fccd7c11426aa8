/** ONNX Runtime Web, float64: there is no kernel, so Attention-23 is expanded, and sqrt(scale) of a negative one is NaN. */

import { output, tensor } from "./node_of.mjs";

const ones = tensor([1, 1, 2, 4], 1, "float64");
const answer = await output({ operator: "Attention", attributes: { scale: { f: -0.5 } } }, [["Q", ones], ["K", ones], ["V", ones]]);
console.log(`scale=-0.5 in float64: ${answer}; it should be ones`);
process.exit(answer.every(Number.isNaN) ? 1 : 0);
