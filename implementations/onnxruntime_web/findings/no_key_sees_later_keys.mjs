/** com.microsoft.MultiHeadAttention, unidirectional: a query that attention_bias leaves no key attends to later keys.
 *
 * Later keys are hidden by the smallest finite number, which is larger than the -inf that attention_bias adds.
 */

import { multiHead, tensor } from "./node_of.mjs";

const [none, unit] = [tensor([1, 3, 3], 0), tensor([1, 3, 3], [1, 0, 0, 0, 1, 0, 0, 0, 1])]; // so that the weights come out
const padding = tensor([1, 1, 3, 3], [-Infinity, 0, 0, -Infinity, 0, 0, -Infinity, 0, 0]); // the first query may see nothing
const weights = await multiHead({ unidirectional: { i: 1 } }, none, none, unit, padding);
console.log("weights of 3 queries on 3 keys, all alike, of which the first is hidden, under unidirectional=1:");
for (const row of [0, 1, 2]) console.log(weights.slice(3 * row, 3 * row + 3).map((each) => each.toFixed(3)).join(" "));
process.exit(weights[1] === 0.5 && weights[2] === 0.5 && weights[5] === 0 ? 1 : 0);
