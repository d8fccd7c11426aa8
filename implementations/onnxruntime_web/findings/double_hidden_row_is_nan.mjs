/** ONNX Runtime Web: a query that may attend to nothing gets zeros from Attention-23 in float32, and NaN in float64. */

import { output, tensor } from "./node_of.mjs";

const mask = tensor([1, 1, 2, 2], [1, 1, 0, 0], "bool");
const seen = {};
for (const type of ["float32", "float64"]) {
  const ones = tensor([1, 1, 2, 2], 1, type);
  seen[type] = (await output({ operator: "Attention" }, [["Q", ones], ["K", ones], ["V", ones], ["mask", mask]])).at(-1);
  console.log(`${type}: the query that may attend to nothing gets ${seen[type]}`);
}
process.exit(seen.float32 === 0 && Number.isNaN(seen.float64) ? 1 : 0);
