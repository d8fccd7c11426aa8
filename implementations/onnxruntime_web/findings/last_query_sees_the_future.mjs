/** com.microsoft.MultiHeadAttention, unidirectional: with more keys than queries the last query sees every key. */

import { multiHead, tensor } from "./node_of.mjs";

const [T, S] = [3, 5];
const unit = Array.from({ length: S * S }, (_, at) => (at % (S + 1) === 0 ? 1 : 0)); // so that the weights come out
const answer = await multiHead({ unidirectional: { i: 1 } }, tensor([1, T, S], 0), tensor([1, S, S], 0), tensor([1, S, S], unit));
const weights = Array.from({ length: T }, (_, row) => answer.slice(row * S, (row + 1) * S));
console.log("weights of 3 queries on 5 keys, all alike, under unidirectional=1:");
for (const row of weights) console.log(row.map((each) => each.toFixed(3)).join(" "));
console.log("queries 0 and 1 are masked from the upper left; query 2 sees the future, so neither alignment is meant");
process.exit(weights[0][1] === 0 && weights[1][2] === 0 && weights[2][4] > 0 ? 1 : 0);
