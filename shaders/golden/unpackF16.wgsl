// unpackF16 for {n:1,gain:1}
struct Dims { n: u32, gain: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
fn store_x(i: u32, value: f32) { x[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// x[2i], x[2i + 1] = the halves of packed[i], times gain. One invocation a word.

fn item(i: u32) {
  if (2u * i >= dims.n) { return; }
  let pair = unpack2x16float(load_packed(i)) * dims.gain;
  store_x(2u * i, pair.x);
  if (2u * i + 1u < dims.n) { store_x(2u * i + 1u, pair.y); }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
