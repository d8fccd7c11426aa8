/** Arrays as they travel: {dtype, shape, data}, in C order. A float16 or bfloat16 is kept as its bits. */

const KEPT = {
  float64: Float64Array, float32: Float32Array, float16: Uint16Array, bfloat16: Uint16Array, bool: Uint8Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
};
const HIDDEN = { float64: -Infinity, float32: -Infinity, float16: 0xfc00 }; // -inf, of float16 its bits

/** The kind of typed array that holds a dtype. Throws for a name that is none. */
export function kept(dtype) {
  if (!(dtype in KEPT)) throw new TypeError(`there is no dtype ${JSON.stringify(dtype)}`);
  return KEPT[dtype];
}

/** An array of zeros. */
export const blank = (dtype, shape) => ({ dtype, shape, data: new (kept(dtype))(size(shape)) });

/** The number of entries. */
export const size = (shape) => shape.reduce((product, length) => product * length, 1);

/** The strides, in entries, of an array in C order. */
export function plain(shape) {
  const strides = new Array(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis], axis -= 1) strides[axis] = step;
  return strides;
}

/** For each place of an array in C order, in turn, where that entry lies in memory with these strides. */
export function* walk(shape, strides, first = 0) {
  const at = new Array(shape.length).fill(0);
  for (let left = size(shape), from = first; left > 0; left -= 1) {
    yield from;
    for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
      from += strides[axis];
      if (++at[axis] < shape[axis]) break;
      from -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

/** A copy in C order of what lies in memory with these strides. */
export function gathered(dtype, shape, memory, strides, first) {
  const copy = blank(dtype, shape);
  let to = 0;
  for (const from of walk(shape, strides, first)) copy.data[to++] = memory[from];
  return copy;
}

/** (B,heads,L,D) to (B,L,heads·D). */
export function headsSideBySide({ dtype, shape: [B, heads, L, D], data }) {
  const [b, h, l, d] = plain([B, heads, L, D]);
  return { ...gathered(dtype, [B, L, heads, D], data, [b, l, h, d], 0), shape: [B, L, heads * D] };
}

/** (B,L,heads·D) to (B,heads,L,D). */
export function headsApart({ dtype, shape: [B, L, width], data }, heads) {
  const D = width / heads;
  const [b, l, h, d] = plain([B, L, heads, D]);
  return gathered(dtype, [B, heads, L, D], data, [b, h, l, d], 0);
}

/** (…,D) to (…,width): the first entries of each row, with zeros behind where there are not so many. */
export function resized({ dtype, shape, data }, width) {
  const D = shape[shape.length - 1];
  if (width === D) return { dtype, shape, data };
  const other = blank(dtype, [...shape.slice(0, -1), width]);
  for (let row = 0; row * D < data.length; row += 1) {
    other.data.set(data.subarray(row * D, row * D + Math.min(D, width)), row * width);
  }
  return other;
}

/** The bias where a boolean mask is true, -inf elsewhere; the two are broadcast to a common shape. */
export function biasWhere(mask, bias) {
  const rank = Math.max(mask.shape.length, bias.shape.length);
  const [first, second] = [mask, bias].map(({ shape }) => [...new Array(rank - shape.length).fill(1), ...shape]);
  const shape = first.map((length, axis) => (length === 1 ? second[axis] : length));
  const [ofMask, ofBias] = [first, second].map((own) => walk(shape, broadcast(own)));
  const added = blank(bias.dtype, shape);
  for (let to = 0; to < added.data.length; to += 1) {
    const [visible, from] = [mask.data[ofMask.next().value], ofBias.next().value];
    added.data[to] = visible ? bias.data[from] : HIDDEN[bias.dtype];
  }
  return added;
}

const broadcast = (shape) => plain(shape).map((stride, axis) => (shape[axis] === 1 ? 0 : stride));
