// muon.apply for {S:1,L:1,rowStep:1,columnStep:1,offset:0,scale:1.6}
struct Dims { S: u32, L: u32, rowStep: u32, columnStep: u32, offset: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
fn load_values(i: u32) -> f32 { return values[i]; }
fn store_values(i: u32, value: f32) { values[i] = value; }
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
fn load_scalars(i: u32) -> f32 { return scalars[i]; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// Muon where the values themselves are what is computed with.
fn leave(inside: u32, value: f32) {}
// The last of a matrix's update by Muon: w ← w·(1 − lr·weightDecay) − lr·scale·x. x has S rows of L elements, which lie in
// the matrix as muonBegin.wgsl says. `leave` stands in muonApplyPlain.wgsl or muonApplyShadow.wgsl.
fn item(i: u32) {
  if (i >= dims.S * dims.L) { return; }
  let inside = (i / dims.L) * dims.rowStep + (i % dims.L) * dims.columnStep;
  let at = dims.offset + inside;
  let learning_rate = load_scalars(0u);
  let kept = load_values(at) * (1.0 - learning_rate * load_scalars(7u));
  let value = kept - learning_rate * dims.scale * load_x(i);
  store_values(at, value);
  leave(inside, value);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
