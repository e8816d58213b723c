// answer.keep for {N:16,H:6,K:2,D:20,R:40}
struct Dims { N: u32, H: u32, K: u32, D: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> qkv_NED: array<vec4f>;
fn load_qkv_NED(i: u32) -> vec4f { return qkv_NED[i]; }
@group(0) @binding(1) var<storage, read> place_N: array<u32>;
fn load_place_N(i: u32) -> u32 { return place_N[i]; }
@group(0) @binding(2) var<storage, read_write> cache_RFD: array<vec4f>;
fn load_cache_RFD(i: u32) -> vec4f { return cache_RFD[i]; }
fn store_cache_RFD(i: u32, value: vec4f) { cache_RFD[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// cache[place[n]] = the keys and values of row n, which stand behind its queries. One invocation for each lane.

fn item(index: u32) {
  let chunks = 2u * dims.K * dims.D / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  let queries = dims.H * dims.D / WIDTH;
  store_cache_RFD(load_place_N(n) * chunks + chunk, load_qkv_NED(n * (queries + chunks) + queries + chunk));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
