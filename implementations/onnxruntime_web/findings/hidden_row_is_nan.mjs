/** com.microsoft.MultiHeadAttention: a query all of whose keys are hidden by -inf in attention_bias gets NaN. */

import { multiHead, tensor } from "./node_of.mjs";

const ones = tensor([1, 2, 2], 1);
const answer = await multiHead({}, ones, ones, ones, tensor([1, 1, 2, 2], [0, 0, -Infinity, -Infinity]));
console.log(`the query that may attend to nothing gets ${answer.slice(2)}`);
process.exit(answer.slice(2).every(Number.isNaN) ? 1 : 0);
