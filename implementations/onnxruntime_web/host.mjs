/** The host of ONNX Runtime Web under Node: `node host.mjs`, which attnspec starts. Only frames go to stdout. */

import { serve } from "./protocol.mjs"; // first: what a library prints goes to stderr from here on
import * as operators from "./operators.mjs";

const { forget, version, ...functions } = operators;

await serve({ versions: { "onnxruntime-web": version }, dtypes: ["float64", "float32", "float16"], functions, forget });
process.exit(0);
