// scaleRows for {N:37,C:300}
struct Dims { N: u32, C: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> weight_N: array<f32>;
fn load_weight_N(i: u32) -> f32 { return weight_N[i]; }
@group(0) @binding(1) var<storage, read_write> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
fn store_x_NC(i: u32, value: vec4f) { x_NC[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// x[n] *= weight[n], row by row. One invocation a lane.

fn item(i: u32) {
  let n = i / (dims.C / WIDTH);
  if (n >= dims.N) { return; }
  store_x_NC(i, load_x_NC(i) * load_weight_N(n));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
