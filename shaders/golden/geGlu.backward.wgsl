// geGlu.backward for {N:37,I:200}
struct Dims { N: u32, I: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_N2I: array<vec4f>;
fn load_x_N2I(i: u32) -> vec4f { return x_N2I[i]; }
@group(0) @binding(1) var<storage, read> dy_NI: array<vec4f>;
fn load_dy_NI(i: u32) -> vec4f { return dy_NI[i]; }
@group(0) @binding(2) var<storage, read_write> dx_N2I: array<vec4f>;
fn load_dx_N2I(i: u32) -> vec4f { return dx_N2I[i]; }
fn store_dx_N2I(i: u32, value: vec4f) { dx_N2I[i] = value; }
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
// dgate = dy·up·act′(gate) and dup = dy·act(gate). One invocation for each lane of dy_NI.

fn item(index: u32) {
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = gate_of(load_x_N2I(at));
  let g = load_dy_NI(index);
  store_dx_N2I(at, g * load_x_N2I(at + chunks) * gate.slope);
  store_dx_N2I(at + chunks, g * gate.value);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
