// addInt8 for {n:1}
struct Dims { n: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
@group(0) @binding(1) var<storage, read_write> acc: array<f32>;
fn load_acc(i: u32) -> f32 { return acc[i]; }
fn store_acc(i: u32, value: f32) { acc[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const BLOCK = 64u;
// acc[i] += code·scale of its block. One invocation a word of codes; in a whole block there are BLOCK / 4 of them.

fn item(word: u32) {
  let first = 4u * word;
  if (first >= dims.n) { return; }
  let block = first / BLOCK;
  let start = block * (1u + BLOCK / 4u);
  let scale = bitcast<f32>(load_packed(start));
  let codes = bitcast<i32>(load_packed(start + 1u + (first % BLOCK) / 4u));
  for (var j = 0u; j < min(4u, dims.n - first); j++) {
    store_acc(first + j, load_acc(first + j) + f32(extractBits(codes, 8u * j, 8u)) * scale);
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
