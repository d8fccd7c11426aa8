/**
 * ONNX Runtime Web: NaN or infinity in a value that no query may see reaches the output, under all three operators.
 * In a key it does so under two of them: GroupQueryAttention gives ones.
 */

import { grouped, multiHead, output, tensor } from "./node_of.mjs";

const mask = tensor([1, 1, 2, 2], [1, 0, 1, 0], "bool"); // the second key is hidden
const bias = tensor([1, 1, 2, 2], [0, -Infinity, 0, -Infinity]);
const reached = [];
for (const place of ["key", "value"]) {
  for (const poison of [NaN, Infinity]) {
    const [ones, hidden] = [tensor([1, 2, 8], 1), tensor([1, 2, 8], [...Array(8).fill(1), ...Array(8).fill(poison)])];
    const [key, value] = place === "key" ? [hidden, ones] : [ones, hidden];
    const [Q, K, V] = [ones, key, value].map((each) => each.reshape([1, 1, 2, 8]));
    const answers = {
      "Attention-23": await output({ operator: "Attention" }, [["Q", Q], ["K", K], ["V", V], ["mask", mask]]),
      MultiHeadAttention: await multiHead({}, ones, key, value, bias),
      GroupQueryAttention: await grouped({}, ones, key, value, bias),
    };
    for (const [name, answer] of Object.entries(answers)) {
      console.log(`${name}, ${poison} in the hidden ${place}: the output is ${answer.slice(-2)}; without it, ones`);
      const leaks = Number.isNaN(answer.at(-1));
      reached.push(leaks === (place === "value" || name !== "GroupQueryAttention"));
    }
  }
}
process.exit(reached.every(Boolean) ? 1 : 0);
