// rotary for {N:256,T:64,H:6,D:32,S:256,sign:1}
struct Dims { N: u32, T: u32, H: u32, D: u32, S: u32, sign: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> table_TD: array<vec4f>;
fn load_table_TD(i: u32) -> vec4f { return table_TD[i]; }
@group(0) @binding(1) var<storage, read> first_N: array<u32>;
fn load_first_N(i: u32) -> u32 { return first_N[i]; }
@group(0) @binding(2) var<storage, read_write> x_NS: array<vec4f>;
fn load_x_NS(i: u32) -> vec4f { return x_NS[i]; }
fn store_x_NS(i: u32, value: vec4f) { x_NS[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// Turns each pair (x[d], x[d + D/2]) of the first H heads of a row, in place:
//   (a, b) → (a·cos − b·sin, b·cos + a·sin),   with sign·sin for sin. One invocation for each lane of pairs.
// A row's position counts from its example's first row.

fn item(index: u32) {
  let chunks = dims.D / 2u / WIDTH; // lanes of half a head
  let head = index / chunks; // n·H + h
  let n = head / dims.H;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  let place = (n % dims.T - load_first_N(n)) * 2u * chunks + chunk;
  let cosine = load_table_TD(place);
  let sine = dims.sign * load_table_TD(place + chunks);
  let at = n * (dims.S / WIDTH) + (head % dims.H) * 2u * chunks + chunk;
  let a = load_x_NS(at);
  let b = load_x_NS(at + chunks);
  store_x_NS(at, a * cosine - b * sine);
  store_x_NS(at + chunks, b * cosine + a * sine);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
