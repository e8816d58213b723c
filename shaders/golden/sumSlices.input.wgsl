// sumSlices.input for {count:1,floats:1,accumulate:0}
struct Dims { count: u32, floats: u32, accumulate: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> slices: array<f32>;
fn load_slices(i: u32) -> f32 { return slices[i]; }
@group(0) @binding(1) var<storage, read_write> c_MN: array<f32>;
fn load_c_MN(i: u32) -> f32 { return c_MN[i]; }
fn store_c_MN(i: u32, value: f32) { c_MN[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// Adds the sums of all slices, in order, to what they are slices of (slices.ts). `add` says what an element belongs to.

fn item(i: u32) {
  if (i >= dims.floats) { return; }
  var sum = load_slices(i);
  for (var slice = 1u; slice < dims.count; slice++) {
    sum += load_slices(slice * dims.floats + i);
  }
  add(i, sum);
}
fn add(i: u32, sum: f32) {
  store_c_MN(i, sum + select(0.0, load_c_MN(i), dims.accumulate == 1u));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
