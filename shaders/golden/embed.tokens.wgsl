// embed.tokens for {N:74,T:37,C:60,V:50,F:0,R:50,scale:1}
struct Dims { N: u32, C: u32, F: u32, R: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> ids_N: array<u32>;
fn load_ids_N(i: u32) -> u32 { return ids_N[i]; }
@group(0) @binding(1) var<storage, read> token_VC: array<vec4f>;
fn load_token_VC(i: u32) -> vec4f { return token_VC[i]; }
@group(0) @binding(2) var<storage, read_write> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
fn store_x_NC(i: u32, value: vec4f) { x_NC[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// x[n] = scale·token[ids[n] − F], where that is one of R rows; below F it is past all of them. One invocation for each lane of x_NC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let row = load_ids_N(n) - dims.F;
  if (row >= dims.R) { return; }
  store_x_NC(index, dims.scale * load_token_VC(row * chunks + index % chunks));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
