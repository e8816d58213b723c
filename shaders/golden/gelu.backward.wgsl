// gelu.backward for {n:4096}
struct Dims { n: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x[i]; }
@group(0) @binding(1) var<storage, read_write> dx: array<vec4f>;
fn load_dx(i: u32) -> vec4f { return dx[i]; }
fn store_dx(i: u32, value: vec4f) { dx[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// gelu(x) = ½x(1 + tanh u) = x·s and its slope s + x·s·(1 − s)·2u′ with u = √(2/π)·(x + 0.044715x³), s = 1/(1 + e^(−2u)) and
// 1 − s = e^(−2u)·s: no cancellation.
struct Gate { value: Lane, slope: Lane }
const SLOPE = 1.5957691216057308; // 2·√(2/π)
const CUBIC = 0.044715;

// x is clamped where gelu(x) is x or 0 to the last bit, so that e^(−2u) stays below the largest f32.
fn gate_of(x: Lane) -> Gate {
  let z = clamp(x, Lane(-10.0), Lane(10.0));
  let e = exp(-SLOPE * z * (1.0 + CUBIC * z * z));
  let s = 1.0 / (1.0 + e);
  return Gate(x * s, s + z * (e * s) * s * (SLOPE * (1.0 + 3.0 * CUBIC * z * z)));
}
// dx = dx·gelu′(x). One invocation for each lane.

fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  store_dx(i, load_dx(i) * gate_of(load_x(i)).slope);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
