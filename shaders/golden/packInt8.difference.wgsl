// packInt8.difference for {n:320}
struct Dims { n: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x[i]; }
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
fn store_packed(i: u32, value: u32) { packed[i] = value; }
@group(0) @binding(2) var<storage, read_write> held: array<vec4f>;
fn load_held(i: u32) -> vec4f { return held[i]; }
fn store_held(i: u32, value: vec4f) { held[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
const BLOCK = 64u;
// Packing of what others lack of x, where four divides n: then they have `held` and what the codes stand for. A code times
// its scale is exact, so that the sum is the same bits wherever it is made.

// Elements i to i + 3.
fn four_at(i: u32) -> vec4f { return load_x(i / 4u) - load_held(i / 4u); }
fn leave(i: u32, four: vec4f, sent: vec4f) { store_held(i / 4u, load_held(i / 4u) + sent); }
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

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
