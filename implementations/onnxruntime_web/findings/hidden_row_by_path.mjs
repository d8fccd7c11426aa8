/** com.microsoft.GroupQueryAttention: a query all of whose keys are hidden gets zeros or NaN, by what else is asked. */

import { grouped, tensor } from "./node_of.mjs";

const ask = async (T, attributes) => {
  const ones = tensor([1, T, 8], 1);
  return (await grouped(attributes, ones, ones, ones, tensor([1, 1, T, T], -Infinity)))[0];
};
const asked = { "two queries, not causal": await ask(2, { causal: { i: 0 } }),
                "two queries": await ask(2, {}), "two queries with a softcap": await ask(2, { softcap: { f: 2 } }),
                "one query": await ask(1, {}) };
for (const [what, got] of Object.entries(asked)) console.log(`${what}: the first may attend to nothing and gets ${got}`);
process.exit(new Set(Object.values(asked).map(String)).size > 1 ? 1 : 0);
