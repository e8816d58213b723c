// embed.backwardPosition for {N:259,T:37,C:60}
struct Dims { N: u32, T: u32, C: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> dx_NC: array<vec4f>;
fn load_dx_NC(i: u32) -> vec4f { return dx_NC[i]; }
@group(0) @binding(1) var<storage, read_write> dposition_TC: array<vec4f>;
fn load_dposition_TC(i: u32) -> vec4f { return dposition_TC[i]; }
fn store_dposition_TC(i: u32, value: vec4f) { dposition_TC[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// dposition[t] += Σ_b dx[b·T + t]. One invocation for each lane of dposition_TC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  if (index >= dims.T * chunks) { return; }
  var sum = Lane();
  for (var i = index; i < dims.N * chunks; i += dims.T * chunks) { sum += load_dx_NC(i); }
  store_dposition_TC(index, load_dposition_TC(index) + sum);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
