/** com.microsoft.MultiHeadAttention and GroupQueryAttention: a scale of 0 counts as none at all, so 1/sqrt(D) is used. */

import { grouped, multiHead, tensor } from "./node_of.mjs";

const [T, D] = [3, 16]; // 1/sqrt(16) is 0.25
const wave = (step) => tensor([1, T, D], Array.from({ length: T * D }, (_, at) => Math.sin(step * (at + 1))));
const [query, key, value] = [1, 2, 3].map(wave);
const mean = [0, 1, 2].reduce((sum, row) => sum + value.data[row * D] / T, 0); // of what the last query sees
const same = [];
for (const [name, attend] of Object.entries({ MultiHeadAttention: multiHead, GroupQueryAttention: grouped })) {
  const [zero, none] = [await attend({ scale: { f: 0 } }, query, key, value), await attend({ scale: { f: 0.25 } }, query, key, value)];
  console.log(`${name}: scale=0: ${zero[2 * D]}; scale=1/sqrt(D): ${none[2 * D]}; 0 should give the mean, ${mean}`);
  same.push(zero.every((each, at) => each === none[at]) && Math.abs(zero[2 * D] - mean) > 1e-3);
}
process.exit(same.every(Boolean) ? 1 : 0);
