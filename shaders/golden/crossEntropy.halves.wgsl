// crossEntropy.halves for {N:37,V:300,scale:1}
enable f16;
struct Dims { N: u32, V: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read_write> logits_NV: array<vec4h>;
fn load_logits_NV(i: u32) -> vec4f { return vec4f(logits_NV[i]); }
fn store_logits_NV(i: u32, value: vec4f) { logits_NV[i] = as_half4(value); }
@group(0) @binding(1) var<storage, read> targets_N: array<u32>;
fn load_targets_N(i: u32) -> u32 { return targets_N[i]; }
@group(0) @binding(2) var<storage, read_write> loss_N: array<f32>;
fn load_loss_N(i: u32) -> f32 { return loss_N[i]; }
fn store_loss_N(i: u32, value: f32) { loss_N[i] = value; }
const LARGEST_HALF = 65504.0;
fn as_half1(x: f32) -> f16 { return f16(select(x, x * 0x1p127, abs(x) > LARGEST_HALF)); }
fn as_half4(x: vec4f) -> vec4h { return vec4h(select(x, x * 0x1p127, abs(x) > vec4f(LARGEST_HALF))); }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
// 1 where the lane that starts at element `first` holds element `index`.
fn one_hot(first: u32, index: u32) -> Lane {
  return select(vec4f(0), vec4f(1), vec4u(first) + vec4u(0, 1, 2, 3) == vec4u(index));
}
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
// Softmax cross-entropy of each row, with its gradient written over the logits:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target],   logits[n] ← (softmax(logits[n]) − onehot(target))·scale.
// The row's maximum is taken off before every exp, so no exp overflows and the sum is at least 1.
// WGSL allows log(1) to be 2^-21 below 0; a loss is not, and one that is not a number stays so.
struct Softmax { most: f32, sum: f32 }

// The logit of the row's target, from whichever invocation reads its lane; 0 from the others.
fn correct_of(n: u32, lane: u32) -> f32 {
  let target_id = load_targets_N(n);
  let v = target_id / WIDTH;
  if (v % TEAM != lane) { return 0.0; }
  return total(load_logits_NV(n * (dims.V / WIDTH) + v) * one_hot(v * WIDTH, target_id));
}
fn gradient_of(logit: Lane, v: u32, target_id: u32, softmax: Softmax) -> Lane {
  return (exp(logit - softmax.most) / softmax.sum - one_hot(v * WIDTH, target_id)) * dims.scale;
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let softmax = softmax_of(n, lane);
  let correct = team_total(lane, correct_of(n, lane));
  let rest = log(softmax.sum);
  if (lane == 0u) { store_loss_N(n, select(rest, 0.0, rest < 0.0) + (softmax.most - correct)); }
  write_gradients(n, softmax, lane);
}
// For GPUs: a row's largest logit and Σ exp(logit − largest) in one walk by the TEAM invocations of a workgroup. Each keeps
// both of the lanes that it has seen (online softmax: Milakov & Gimelshein 2018), four loads at a time: a vocabulary is
// seldom a multiple of four, so a lane is one float, and there are only as many rows as logits are kept.
fn softmax_of(n: u32, lane: u32) -> Softmax {
  let chunks = dims.V / WIDTH;
  let row = n * chunks;
  var most = Lane() - 3.4e38;
  var sum = Lane();
  var v = lane;
  for (; v + 3u * TEAM < chunks; v += 4u * TEAM) {
    let a = load_logits_NV(row + v);
    let b = load_logits_NV(row + v + TEAM);
    let c = load_logits_NV(row + v + 2u * TEAM);
    let d = load_logits_NV(row + v + 3u * TEAM);
    let before = most;
    most = max(max(before, max(a, b)), max(c, d));
    sum = sum * exp(before - most) + ((exp(a - most) + exp(b - most)) + (exp(c - most) + exp(d - most)));
  }
  for (; v < chunks; v += TEAM) {
    let a = load_logits_NV(row + v);
    let before = most;
    most = max(before, a);
    sum = sum * exp(before - most) + exp(a - most);
  }
  let row_most = team_largest(lane, largest(most));
  return Softmax(row_most, team_total(lane, total(sum * exp(most - row_most))));
}
// For GPUs: the TEAM invocations of a workgroup write a row's gradients, with four loads at a time under way.
fn write_gradients(n: u32, softmax: Softmax, lane: u32) {
  let chunks = dims.V / WIDTH;
  let row = n * chunks;
  let target_id = load_targets_N(n);
  var v = lane;
  for (; v + 3u * TEAM < chunks; v += 4u * TEAM) {
    let a = load_logits_NV(row + v);
    let b = load_logits_NV(row + v + TEAM);
    let c = load_logits_NV(row + v + 2u * TEAM);
    let d = load_logits_NV(row + v + 3u * TEAM);
    store_logits_NV(row + v, gradient_of(a, v, target_id, softmax));
    store_logits_NV(row + v + TEAM, gradient_of(b, v + TEAM, target_id, softmax));
    store_logits_NV(row + v + 2u * TEAM, gradient_of(c, v + 2u * TEAM, target_id, softmax));
    store_logits_NV(row + v + 3u * TEAM, gradient_of(d, v + 3u * TEAM, target_id, softmax));
  }
  for (; v < chunks; v += TEAM) {
    store_logits_NV(row + v, gradient_of(load_logits_NV(row + v), v, target_id, softmax));
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
