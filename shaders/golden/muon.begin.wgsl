// muon.begin for {S:1,L:1,rowStep:1,columnStep:1,gradientOffset:0,momentOffset:0,momentum:0.95}
struct Dims { S: u32, L: u32, rowStep: u32, columnStep: u32, gradientOffset: u32, momentOffset: u32, momentum: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> grads: array<f32>;
fn load_grads(i: u32) -> f32 { return grads[i]; }
@group(0) @binding(1) var<storage, read_write> m: array<f32>;
fn load_m(i: u32) -> f32 { return m[i]; }
fn store_m(i: u32, value: f32) { m[i] = value; }
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
fn store_x(i: u32, value: f32) { x[i] = value; }
@group(0) @binding(3) var<storage, read> scalars: array<f32>;
fn load_scalars(i: u32) -> f32 { return scalars[i]; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// What Muon orthogonalises of one matrix: with g = grad·clipScale
//   m ← µ·m + (1 − µ)·g,   x = µ·m + (1 − µ)·g
// x has S rows of L elements. Element (row, column) of it lies row·rowStep + column·columnStep elements behind the
// matrix's first one, so a matrix that stands upright is turned, and one among others in its tensor is taken out.
fn item(i: u32) {
  if (i >= dims.S * dims.L) { return; }
  let inside = (i / dims.L) * dims.rowStep + (i % dims.L) * dims.columnStep;
  let at = dims.momentOffset + inside;
  let g = load_grads(dims.gradientOffset + inside) * load_scalars(1u);
  let rest = 1.0 - dims.momentum;
  let m_new = dims.momentum * load_m(at) + rest * g;
  store_m(at, m_new);
  store_x(i, dims.momentum * m_new + rest * g);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
