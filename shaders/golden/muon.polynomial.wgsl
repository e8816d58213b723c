// muon.polynomial for {S:1}
struct Dims { S: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> m: array<f32>;
fn load_m(i: u32) -> f32 { return m[i]; }
@group(0) @binding(1) var<storage, read_write> square: array<f32>;
fn load_square(i: u32) -> f32 { return square[i]; }
fn store_square(i: u32, value: f32) { square[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const FACTOR_A = 3.4445;
const FACTOR_B = -4.775;
const FACTOR_C = 2.0315;
// What a Newton–Schulz step multiplies X by, of M = X·Xᵀ [S, S] and its square: square ← a·1 + b·M + c·square.
fn item(i: u32) {
  if (i >= dims.S * dims.S) { return; }
  let one = select(0.0, FACTOR_A, i % (dims.S + 1u) == 0u);
  store_square(i, one + FACTOR_B * load_m(i) + FACTOR_C * load_square(i));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
