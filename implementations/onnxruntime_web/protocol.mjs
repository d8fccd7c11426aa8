/** attnspec's protocol, version 1 (docs/protocol.md): frames on stdin and stdout, one request after the other. */

import fs from "node:fs";

import { gathered, kept, plain, size } from "./arrays.mjs";

const VERSION = 1;
const PREFIX = 12; // bytes: the header's length in 4, the body's in 8
const ALIGNED = 64;
const LONGEST = 10_000; // characters of what was printed, of a message, of a stack
const KEPT = 2 ** 26; // bytes of results that are kept, to be looked at again

/** Answer requests until there are no more. library: see `Servant`. */
export async function serve(library) {
  const servant = new Servant(library);
  for (let frame = received(); frame; frame = received()) {
    const { header, arrays } = await servant.answer(frame.header, frame.arrays);
    send(header, arrays);
  }
}

/**
 * The functions that were loaded, and the last results.
 *
 * library: {versions: {name: version}, dtypes: those that it takes, functions: {name: function}, forget()}. A function
 * is given query, key, value and an object of keywords, and returns an array or, asked for weights, a pair of arrays
 * (or a promise of them); its property `keywords` has the default of each.
 */
class Servant {
  constructor(library) {
    this.library = library;
    this.functions = [];
    this.calls = 0;
    this.results = new Map(); // by call, in the library's own memory
    this.bytes = 0; // of these
  }

  async answer(header, arrays) {
    const asked = { hello: this.hello, load: this.load, lift: this.lift, call: this.call, recall: this.recall,
                    forget: this.forget };
    if (!Object.hasOwn(asked, header.do)) {
      return { header: { error: `there is no request ${JSON.stringify(header.do)}` } };
    }
    return asked[header.do].call(this, header, arrays);
  }

  hello() {
    return { header: { version: VERSION, python: `Node ${process.versions.node}`, platform: process.platform,
                       machine: process.arch, pid: process.pid } };
  }

  load({ name, versions = [] }) {
    const { functions } = this.library;
    if (!Object.hasOwn(functions, name)) {
      const members = Object.keys(functions);
      return { header: { not_loaded: { kind: "member", part: name, file: "host.mjs", members, own: members } } };
    }
    this.functions.push(functions[name]);
    const known = versions.filter((each) => each in this.library.versions);
    return { header: { handle: this.functions.length - 1, described: described(functions[name]),
                       versions: Object.fromEntries(known.map((each) => [each, this.library.versions[each]])) } };
  }

  lift({ lift, device }) {
    if (lift) return { header: { no_lift: "this host hands over its own arrays" } };
    if (device && device !== "cpu") return { header: { no_device: "cpu" } };
    const not_taken = Object.fromEntries(["float64", "float32", "float16", "bfloat16"].map((dtype) =>
      [dtype, this.library.dtypes.includes(dtype) ? "" : `the host has no arrays of ${dtype}`]));
    return { header: { device: "cpu", not_taken, flushed: {}, about: {} } };
  }

  async call(header, arrays) {
    const given = { inputs: header.inputs.map((at) => arrays[at]), keywords: unpacked(header.keywords, arrays) };
    const before = arrays.map(({ data }) => Buffer.from(bytes(data)));
    lines = [];
    let ended;
    try {
      ended = judged(await this.functions[header.of](...given.inputs, given.keywords), header.shapes);
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) die(error); // its memory is in no known state any more
      ended = { ended: "raised", told: toldOf(error) };
    }
    const { results = [], told = {} } = ended;
    this.keep(results);
    const shared = ({ data }) => results.some((result) => result.data.buffer === data.buffer);
    const aliases = arrays.flatMap((each, at) => (shared(each) ? [at] : []));
    const changed = arrays.flatMap(({ data }, at) => (before[at].equals(bytes(data)) ? [] : [at]));
    return { header: { ended: ended.ended, call: this.calls, results: results.length, has_gradients: false, aliases, changed,
                       said: said(), told }, arrays: results };
  }

  keep(results) {
    this.calls += 1;
    if (results.length) this.results.set(this.calls, results);
    this.bytes += bytesOf(results);
    while (this.bytes > KEPT) {
      const [oldest, held] = this.results.entries().next().value;
      this.results.delete(oldest);
      this.bytes -= bytesOf(held);
    }
  }

  recall({ call }) {
    return { header: { call }, arrays: this.results.get(call) ?? [] };
  }

  async forget() {
    await this.library.forget();
    return { header: {} };
  }
}

const bytes = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength);
const bytesOf = (results) => results.reduce((sum, { data }) => sum + data.byteLength, 0);

/** What is known of a function without calling it. */
function described(callable) {
  const inputs = ["query", "key", "value"].map((name) => ({ name, kind: "POSITIONAL_OR_KEYWORD" }));
  const keywords = Object.entries(callable.keywords).map(
    ([name, value]) => ({ name, kind: "KEYWORD_ONLY", default: value }));
  return { type: "function", qualname: callable.name, module: "host", doc: "", place: null,
           parameters: [...inputs, ...keywords], attributes: {}, uses: [], is_class: false, is_callable: true,
           is_function: true, is_deferred: false, is_module_of_torch: false };
}

/** Keywords as they came over the wire, with the arrays that they name. */
function unpacked(value, arrays) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  if ("$array" in value) return arrays[value.$array];
  if ("$float" in value) return { nan: NaN, inf: Infinity, "-inf": -Infinity }[value.$float];
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, unpacked(inner, arrays)]));
}

/** How a call ended that returned: with arrays of the shapes that are due, or with something else. */
function judged(returned, shapes) {
  const results = shapes.length === 1 ? [returned] : returned;
  if (!Array.isArray(results) || results.length !== shapes.length) return unusable(named(returned), "the pair", 0);
  const names = ["the output", "the weights"];
  const at = results.findIndex((each, index) => String(each?.shape) !== String(shapes[index]));
  return at < 0 ? { ended: "answered", results } : unusable(named(results[at]), names[at], at);
}

const unusable = (told, name, at) => ({ ended: "unusable", told: { named: told, name, at, reading: "" } });
const named = (value) => (
  value?.data ? `an array of shape (${value.shape.join(", ")}) and dtype ${value.dtype}` : String(value));

/** What was thrown, in words. A library compiled to WebAssembly may throw a mere number. */
function toldOf(error) {
  if (!(error instanceof Error)) {
    return { summary: bounded(`thrown: ${error}`), traceback: "", classes: [], statement: "" };
  }
  const classes = [];
  for (let kin = Object.getPrototypeOf(error); kin !== Object.prototype; kin = Object.getPrototypeOf(kin)) {
    classes.push(kin.constructor.name);
  }
  const stack = String(error.stack).split("\n").filter((line) => !line.includes(import.meta.url)); // without our own frames
  const summary = bounded(`${error.name}: ${error.message.trim().split("\n")[0]}`);
  return { summary, traceback: bounded(stack.join("\n")), classes, statement: "" };
}

/** Text that is short and well-formed: half of a character becomes a replacement character. */
const bounded = (text) => Buffer.from(text.slice(0, LONGEST)).toString();

function die(error) {
  fs.writeSync(2, `${error.stack}\n`);
  process.exit(70);
}

let lines = null; // of what is printed during a call

for (const way of ["log", "info", "warn", "error", "debug"]) { // before a library is imported, which may keep them
  console[way] = (...words) => {
    const line = words.map(String).join(" ");
    if (lines) lines.push(line);
    else fs.writeSync(2, `${line}\n`);
  };
}

/** What was printed since `lines` was begun. */
function said() {
  const text = lines.map((line) => `${line}\n`).join("");
  lines = null;
  return bounded(text);
}

/** The next frame; null where there is none. */
function received() {
  const prefix = read(PREFIX);
  if (!prefix) return null;
  const header = JSON.parse(read(prefix.readUInt32LE(0)).toString("utf-8"));
  const body = read(Number(prefix.readBigUInt64LE(4)));
  let at = 0;
  const arrays = (header.arrays ?? []).map((told) => {
    const array = arrayOf(told, body, at);
    at += told.bytes + padding(told.bytes);
    return array;
  });
  return { header, arrays };
}

/** An array out of a frame's body: its own memory, in C order. */
function arrayOf({ dtype, shape, bytes, strides, offset = 0 }, body, at) {
  const Kind = kept(dtype);
  const memory = new Kind(body.buffer.slice(body.byteOffset + at, body.byteOffset + at + bytes));
  if (!strides || !size(shape)) return { dtype, shape, data: memory };
  const entries = strides.map((stride) => stride / Kind.BYTES_PER_ELEMENT);
  return gathered(dtype, shape, memory, entries, offset / Kind.BYTES_PER_ELEMENT);
}

const padding = (bytes) => (ALIGNED - (bytes % ALIGNED)) % ALIGNED;

function send(header, arrays = []) {
  const told = arrays.map(({ dtype, shape, data }) => ({ dtype, shape, bytes: data.byteLength }));
  const text = Buffer.from(JSON.stringify(told.length ? { ...header, arrays: told } : header));
  const body = arrays.flatMap(({ data }) => [bytes(data), Buffer.alloc(padding(data.byteLength))]);
  const prefix = Buffer.alloc(PREFIX);
  prefix.writeUInt32LE(text.length, 0);
  prefix.writeBigUInt64LE(BigInt(body.reduce((sum, part) => sum + part.length, 0)), 4);
  write(Buffer.concat([prefix, text, ...body]));
}

/** So many bytes; null where the pipe has ended. */
function read(count) {
  const memory = Buffer.from(new ArrayBuffer(count));
  for (let at = 0; at < count;) {
    const got = fs.readSync(0, memory, at, count - at, null);
    if (!got) return null;
    at += got;
  }
  return memory;
}

function write(memory) {
  for (let at = 0; at < memory.length;) at += fs.writeSync(1, memory, at);
}
