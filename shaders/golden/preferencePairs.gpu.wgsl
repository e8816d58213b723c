// preferencePairs.gpu for {B:1,T:2,beta:1}
struct Dims { B: u32, T: u32, beta: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> first_BT: array<u32>;
fn load_first_BT(i: u32) -> u32 { return first_BT[i]; }
@group(0) @binding(1) var<storage, read_write> loss_BT: array<f32>;
fn load_loss_BT(i: u32) -> f32 { return loss_BT[i]; }
fn store_loss_BT(i: u32, value: f32) { loss_BT[i] = value; }
@group(0) @binding(2) var<storage, read_write> weight_BT: array<f32>;
fn load_weight_BT(i: u32) -> f32 { return weight_BT[i]; }
fn store_weight_BT(i: u32, value: f32) { weight_BT[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const TEAM = 256u;
// Reductions over the TEAM invocations of a workgroup, in a fixed order: runs first, then their results, which all
// invocations read. For GPUs only: on a software adapter every barrier switches stacks. Each call needs all invocations.
const RUNS = TEAM / 16u;
var<workgroup> shared_values: array<f32, TEAM>;
var<workgroup> shared_results: array<f32, RUNS>;

// Two barriers a call: the next call's first values are written after these have been read, its results after the first
// barrier of its own.
fn team_total(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  workgroupBarrier();
  if (lane < RUNS) {
    var run = 0.0;
    for (var i = lane; i < TEAM; i += RUNS) { run += shared_values[i]; }
    shared_results[lane] = run;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < RUNS; i++) { sum += shared_results[i]; }
  return sum;
}

fn team_largest(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  workgroupBarrier();
  if (lane < RUNS) {
    var run = shared_values[lane];
    for (var i = lane + RUNS; i < TEAM; i += RUNS) { run = max(run, shared_values[i]); }
    shared_results[lane] = run;
  }
  workgroupBarrier();
  var most = shared_results[0];
  for (var i = 1u; i < RUNS; i++) { most = max(most, shared_results[i]); }
  return most;
}
// log(1 + x) for x from 0 on, with all digits of a small x: WGSL's log may be 2^-21 off where it is near 0.
// Up to 1 it is the series of 2·atanh(x / (2 + x)).
fn log_of_one_and(x: f32) -> f32 {
  if (x > 1.0) { return log(1.0 + x); }
  let s = x / (2.0 + x);
  let q = s * s;
  let series = 1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11 + q * (1.0 / 13 + q / 15)))));
  return 2.0 * (s + s * q * series);
}
// The losses of the rows of a window become that of its pair, in the window's first row:
//   −log σ(margin),   margin = β·Σ_r side[r]·(loss[r + T/2] − loss[r]) over the first half's rows,
// with side 1 in the chosen text, which begins at the window's first row, and −1 in the rejected one; weight[r] is
// β·σ(−margin)·side[r] in the first half, and 0 in the second.

fn side_of(i: u32) -> f32 { return select(-1.0, 1.0, load_first_BT(i) == 0u); }

fn row(b: u32, lane: u32) {
  if (b >= dims.B) { return; }
  let half = dims.T / 2u;
  let start = b * dims.T;
  var own = 0.0;
  for (var r = lane; r < half; r += TEAM) {
    let i = start + r;
    own += side_of(i) * (load_loss_BT(i + half) - load_loss_BT(i));
  }
  let margin = dims.beta * team_total(lane, own);
  let part = dims.beta / (1.0 + select(exp(margin), 3.4e38, margin > 88.0));
  for (var r = lane; r < half; r += TEAM) {
    let i = start + r;
    store_weight_BT(i, part * side_of(i));
    store_weight_BT(i + half, 0.0);
    store_loss_BT(i, 0.0);
    store_loss_BT(i + half, 0.0);
  }
  if (lane == 0u) { store_loss_BT(start, max(0.0, -margin) + log_of_one_and(exp(-abs(margin)))); }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
