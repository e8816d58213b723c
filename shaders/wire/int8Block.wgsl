// A block of BLOCK elements (the last one may be shorter) as one scale and codes from -127 to 127, four a word.
//
// The scale is the least number of three bits of mantissa of which 127 are as large as the block's largest magnitude. Its
// reciprocal stands in a table of eight, so that no division's rounding decides on a code: every adapter makes the same
// bits.
const MOST_BITS = 0x7f000000u; // 2^127: as good as infinite
const NAN_BITS = 0x7fc00000u;
const LEAST_BITS = 0x0d800000u; // 2^-100: a block below it is zero
const RECIPROCALS = array<f32, 8>(1, 1 / 1.125, 1 / 1.25, 1 / 1.375, 1 / 1.5, 1 / 1.625, 1 / 1.75, 1 / 1.875);

struct Scale { value: f32, bits: u32, reciprocal: f32 }

// `largest`: the bits of the largest magnitude. Bits of magnitudes order as their values do, NaN above all.
fn scale_of(largest: u32) -> Scale {
  if (largest < LEAST_BITS) { return Scale(0, 0u, 0); }
  if (largest >= MOST_BITS) { return Scale(0, NAN_BITS, 0); }
  var bits = (largest + 0xfffffu) & 0xfff00000u; // of 128 scales
  if (bitcast<f32>(largest) > bitcast<f32>(bits) * (127.0 / 128.0)) { bits += 0x100000u; }
  bits -= 7u << 23u;
  let exponent = bits >> 23u;
  let power = bitcast<f32>((254u - exponent) << 23u);
  return Scale(bitcast<f32>(bits), bits, RECIPROCALS[(bits >> 20u) & 7u] * power);
}

// Bytes of four codes, the first one lowest.
fn word_of(codes: vec4i) -> u32 {
  let bytes = vec4u(codes) & vec4u(255);
  return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}

// One invocation a block. `four_at` and `leave` say what four elements are, and what becomes of them and of what their
// codes stand for.
fn item(block: u32) {
  let first = block * BLOCK;
  if (first >= dims.n) { return; }
  let end = min(first + BLOCK, dims.n);
  var bits = vec4u();
  for (var i = first; i < end; i += 4u) { bits = max(bits, bitcast<vec4u>(four_at(i)) & vec4u(0x7fffffff)); }
  let scale = scale_of(max(max(bits.x, bits.y), max(bits.z, bits.w)));
  var word = block * (1u + BLOCK / 4u);
  store_packed(word, scale.bits);
  for (var i = first; i < end; i += 4u) {
    let four = four_at(i);
    let codes = select(vec4i(), vec4i(round(four * scale.reciprocal)), scale.reciprocal > 0);
    word++;
    store_packed(word, word_of(codes));
    leave(i, four, vec4f(codes) * scale.value);
  }
}
