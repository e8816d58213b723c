// crossEntropy.software for {N:37,V:300,scale:1}
struct Dims { N: u32, V: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read_write> logits_NV: array<vec4f>;
fn load_logits_NV(i: u32) -> vec4f { return logits_NV[i]; }
fn store_logits_NV(i: u32, value: vec4f) { logits_NV[i] = value; }
@group(0) @binding(1) var<storage, read> targets_N: array<u32>;
fn load_targets_N(i: u32) -> u32 { return targets_N[i]; }
@group(0) @binding(2) var<storage, read_write> loss_N: array<f32>;
fn load_loss_N(i: u32) -> f32 { return loss_N[i]; }
fn store_loss_N(i: u32, value: f32) { loss_N[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
// 1 where the lane that starts at element `first` holds element `index`.
fn one_hot(first: u32, index: u32) -> Lane {
  return select(vec4f(0), vec4f(1), vec4u(first) + vec4u(0, 1, 2, 3) == vec4u(index));
}
// For software adapters, where one invocation has a whole row: the twin of team.wgsl.
const TEAM = 1u;
fn team_total(lane: u32, value: f32) -> f32 { return value; }
fn team_largest(lane: u32, value: f32) -> f32 { return value; }
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
// For software adapters: a row's largest logit and Σ exp(logit − largest), in two walks by one invocation. What
// each addition rounds off is taken into the next one (Kahan): small terms onto a sum of 1 all round alike.
fn softmax_of(n: u32, lane: u32) -> Softmax {
  let chunks = dims.V / WIDTH;
  var most = Lane() - 3.4e38;
  for (var v = 0u; v < chunks; v++) { most = max(most, load_logits_NV(n * chunks + v)); }
  let row_most = largest(most);
  var sum = Lane();
  var excess = Lane();
  for (var v = 0u; v < chunks; v++) {
    let term = exp(load_logits_NV(n * chunks + v) - row_most) - excess;
    let next = sum + term;
    excess = (next - sum) - term;
    sum = next;
  }
  return Softmax(row_most, total(sum));
}
// For software adapters: one invocation writes a row's gradients.
fn write_gradients(n: u32, softmax: Softmax, lane: u32) {
  let chunks = dims.V / WIDTH;
  let target_id = load_targets_N(n);
  for (var v = 0u; v < chunks; v++) {
    let i = n * chunks + v;
    store_logits_NV(i, gradient_of(load_logits_NV(i), v, target_id, softmax));
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
