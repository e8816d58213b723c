// packF16 for {n:1,gain:1}
struct Dims { n: u32, gain: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
fn store_packed(i: u32, value: u32) { packed[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// Two floats as a word of halves. Rounding (to even), saturation and what is not finite are settled on the bits of the
// floats, so that pack2x16float has nothing left to round: some GPUs would cut, and none promises anything of NaN.
const INFINITY_BITS = 0x7f800000u;
const LARGEST_BITS = 0x477fe000u; // 65504

// The float of eleven significant bits that is nearest, at most the largest half.
fn rounded(bits: u32) -> f32 {
  let magnitude = bits & 0x7fffffffu;
  let nearest = (magnitude + 0xfffu + ((magnitude >> 13u) & 1u)) & 0xffffe000u;
  return bitcast<f32>((bits & 0x80000000u) | min(nearest, LARGEST_BITS));
}

fn finished(half: u32, bits: u32) -> u32 {
  let magnitude = bits & 0x7fffffffu;
  if (magnitude < INFINITY_BITS) { return half; }
  return select(0x7e00u, ((bits >> 16u) & 0x8000u) | 0x7c00u, magnitude == INFINITY_BITS);
}

fn half_word(low: f32, high: f32) -> u32 {
  let first = bitcast<u32>(low);
  let second = bitcast<u32>(high);
  let word = pack2x16float(vec2f(rounded(first), rounded(second)));
  return finished(word & 0xffffu, first) | (finished(word >> 16u, second) << 16u);
}
// packed[i] = halves of x[2i]·gain and x[2i + 1]·gain. One invocation a word.

fn item(i: u32) {
  if (2u * i >= dims.n) { return; }
  var second = 0.0;
  if (2u * i + 1u < dims.n) { second = load_x(2u * i + 1u) * dims.gain; }
  store_packed(i, half_word(load_x(2u * i) * dims.gain, second));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
