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
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// For software adapters, where one invocation has a whole row: the twin of team.wgsl.
const TEAM = 1u;
fn team_total(lane: u32, value: f32) -> f32 { return value; }
fn team_largest(lane: u32, value: f32) -> f32 { return value; }
// log(1 + x) for x from 0 on, with all digits of a small x: WGSL's log may be 2^-21 off where it is near 0.
// Up to 1 it is the series of 2·atanh(x / (2 + x)).
fn log_of_one_and(x: f32) -> f32 {
  if (x > 1.0) { return log(1.0 + x); }
  let s = x / (2.0 + x);
  let q = s * s;
  let series = 1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11 + q * (1.0 / 13 + q / 15)))));
  return 2.0 * (s + s * q * series);
}
// The target apart from the others. Where it is nearly certain, 1 − probability has no digits left, so its loss and its
// gradient are made of the others alone: while a row is walked, the target's logit is as low as floats go and adds 0.
const LOWEST = -3.4e38;
// Of a row that does not count.
const NO_TARGET = 0xffffffffu;
// Of the others: the largest logit and Σ exp(logit − most).
struct Softmax { most: f32, sum: f32 }
// Σ of the others' powers and the target's own, with the largest logit of all taken off: no exp overflows, one is 1.
struct Powers { most: f32, others: f32, own: f32 }

// Each lane of a row belongs to one invocation, which alone reads and writes it.
fn has_target(n: u32, lane: u32) -> bool { return load_targets_N(n) / WIDTH % TEAM == lane; }
// By the invocation that has it.
fn write_target(n: u32, value: f32) {
  let target_id = load_targets_N(n);
  let i = n * (dims.V / WIDTH) + target_id / WIDTH;
  store_logits_NV(i, lane_replaced(load_logits_NV(i), target_id % WIDTH, value));
}
// The target's logit, which is taken out of its row; 0 for those who do not have it.
fn take_target(n: u32, lane: u32) -> f32 {
  if (!has_target(n, lane)) { return 0.0; }
  let target_id = load_targets_N(n);
  let correct = lane_element(load_logits_NV(n * (dims.V / WIDTH) + target_id / WIDTH), target_id % WIDTH);
  write_target(n, LOWEST);
  return correct;
}

fn powers_of(softmax: Softmax, correct: f32) -> Powers {
  let most = max(softmax.most, correct);
  return Powers(most, softmax.sum * exp(softmax.most - most), exp(correct - most));
}

// log Σ exp(logit) − correct; what is not a number stays so.
fn loss_of(powers: Powers, correct: f32) -> f32 {
  let behind = powers.most - correct;
  if (behind > 0.0) { return behind + log(powers.others + powers.own); }
  return behind + log_of_one_and(powers.others);
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
fn write_gradients(n: u32, most: f32, slope: f32, lane: u32) {
  let chunks = dims.V / WIDTH;
  for (var v = 0u; v < chunks; v++) {
    let i = n * chunks + v;
    store_logits_NV(i, gradient_of(load_logits_NV(i), most, slope));
  }
}
// Softmax cross-entropy of each row, with its gradient written over the logits:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target],   logits[n] ← (softmax(logits[n]) − onehot(target))·scale,
// of which the target's is −Σ of the others'. A row without a target has no loss, and leaves zeros.

// The gradient of one of the others. `slope`: scale / Σ.
fn gradient_of(logit: Lane, most: f32, slope: f32) -> Lane { return exp(logit - most) * slope; }

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  if (load_targets_N(n) == NO_TARGET) {
    let chunks = dims.V / WIDTH;
    for (var v = lane; v < chunks; v += TEAM) { store_logits_NV(n * chunks + v, Lane()); }
    if (lane == 0u) { store_loss_N(n, 0.0); }
    return;
  }
  let own = take_target(n, lane);
  let softmax = softmax_of(n, lane);
  let correct = team_total(lane, own);
  let powers = powers_of(softmax, correct);
  let slope = dims.scale / (powers.others + powers.own);
  write_gradients(n, powers.most, slope, lane);
  if (!has_target(n, lane)) { return; }
  write_target(n, -powers.others * slope);
  store_loss_N(n, loss_of(powers, correct));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
