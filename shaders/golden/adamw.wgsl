// adamw for {offset:64,count:1024,gradientOffset:128,momentOffset:0,from0:0,to0:4,from1:8,to1:64,from2:128,to2:512,from3:900,to3:1024}
struct Dims { offset: u32, count: u32, gradientOffset: u32, momentOffset: u32, from0: u32, to0: u32, from1: u32, to1: u32, from2: u32, to2: u32, from3: u32, to3: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read_write> values: array<vec4f>;
fn load_values(i: u32) -> vec4f { return values[i]; }
fn store_values(i: u32, value: vec4f) { values[i] = value; }
@group(0) @binding(1) var<storage, read> grads: array<vec4f>;
fn load_grads(i: u32) -> vec4f { return grads[i]; }
@group(0) @binding(2) var<storage, read_write> m: array<vec4f>;
fn load_m(i: u32) -> vec4f { return m[i]; }
fn store_m(i: u32, value: vec4f) { m[i] = value; }
@group(0) @binding(3) var<storage, read_write> v: array<vec4f>;
fn load_v(i: u32) -> vec4f { return v[i]; }
fn store_v(i: u32, value: vec4f) { v[i] = value; }
@group(0) @binding(4) var<storage, read> scalars: array<f32>;
fn load_scalars(i: u32) -> f32 { return scalars[i]; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// AdamW where the values themselves are what is computed with.
fn leave(index: u32, value: Lane) {}
// AdamW with decoupled decay, as torch.optim.AdamW (Loshchilov & Hutter 2019, algorithm 2). For elements
// [offset, offset + count) of values, as many of grads from gradientOffset on, and of m and v from momentOffset on
// (decay: 1 in the ranges from0 to to0 … of the elements, else 0):
//   g = grad·clipScale,   p ← p·(1 − lr·weightDecay·decay)
//   m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   p ← p − lr·(m/c₁)/(√(v/c₂) + ε)
// `leave` stands in adamwPlain.wgsl or adamwShadow.wgsl.

// A lane is in a range or it is not.
fn decays(index: u32) -> bool {
  let i = index * WIDTH;
  return (dims.from0 <= i && i < dims.to0) || (dims.from1 <= i && i < dims.to1)
    || (dims.from2 <= i && i < dims.to2) || (dims.from3 <= i && i < dims.to3);
}

// One invocation a lane.
fn item(index: u32) {
  if (index >= dims.count / WIDTH) { return; }
  let at = dims.offset / WIDTH + index;
  let moment_at = dims.momentOffset / WIDTH + index;
  let learning_rate = load_scalars(0u);
  let clip_scale = load_scalars(1u);
  let beta1 = load_scalars(2u);
  let beta2 = load_scalars(3u);
  let epsilon = load_scalars(4u);
  let correction1 = load_scalars(5u);
  let correction2 = load_scalars(6u);
  let weight_decay = load_scalars(7u);
  let step = learning_rate / correction1;
  let g = load_grads(dims.gradientOffset / WIDTH + index) * clip_scale;
  let decayed = load_values(at) * (1.0 - learning_rate * weight_decay * select(0.0, 1.0, decays(index)));
  let m_new = beta1 * load_m(moment_at) + (1.0 - beta1) * g;
  let v_new = beta2 * load_v(moment_at) + (1.0 - beta2) * (g * g);
  store_m(moment_at, m_new);
  store_v(moment_at, v_new);
  let value = decayed - step * m_new / (sqrt(v_new * (1.0 / correction2)) + epsilon);
  store_values(at, value);
  leave(index, value);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
