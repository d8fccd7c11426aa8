/** ONNX Runtime Web: NaN or infinity in a value that no query may see reaches the output, under all three operators. */

import { grouped, multiHead, output, tensor } from "./node_of.mjs";

const mask = tensor([1, 1, 2, 2], [1, 0, 1, 0], "bool"); // the second key is hidden
const bias = tensor([1, 1, 2, 2], [0, -Infinity, 0, -Infinity]);
const reached = [];
for (const poison of [NaN, Infinity]) {
  const [ones, value] = [tensor([1, 2, 8], 1), tensor([1, 2, 8], [...Array(8).fill(1), ...Array(8).fill(poison)])];
  const [four, hidden] = [ones, value].map((each) => each.reshape([1, 1, 2, 8]));
  const answers = {
    "Attention-23": await output({ operator: "Attention" }, [["Q", four], ["K", four], ["V", hidden], ["mask", mask]]),
    MultiHeadAttention: await multiHead({}, ones, ones, value, bias),
    GroupQueryAttention: await grouped({}, ones, ones, value, bias),
  };
  for (const [name, answer] of Object.entries(answers)) {
    console.log(`${name}, ${poison} in the hidden value: the output is ${answer.slice(-2)}; without it, ones`);
    reached.push(Number.isNaN(answer.at(-1)));
  }
}
process.exit(reached.every(Boolean) ? 1 : 0);
