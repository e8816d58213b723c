// Softmax cross-entropy of each row, with its gradient written over the logits:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target],   logits[n] ← (softmax(logits[n]) − onehot(target))·scale.
// The row's maximum is taken off before every exp, so no exp overflows and the sum is at least 1.
struct Dims { N: u32, V: u32, scale: f32 }
@group(0) @binding(0) var<storage, read_write> logits: array<Lane>;
@group(0) @binding(1) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Each of these walks over lanes `first`, first + step, … of row n.
fn largest_of(n: u32, first: u32, step: u32) -> f32 {
  let chunks = dims.V / WIDTH;
  var most = Lane() - 3.4e38;
  for (var v = first; v < chunks; v += step) { most = max(most, logits[n * chunks + v]); }
  return largest(most);
}
fn exponentials_of(n: u32, most: f32, first: u32, step: u32) -> f32 {
  let chunks = dims.V / WIDTH;
  var sum = Lane();
  for (var v = first; v < chunks; v += step) { sum += exp(logits[n * chunks + v] - most); }
  return total(sum);
}
// The logit of the row's target, from whichever invocation reads its lane; 0 from the others.
fn correct_of(n: u32, first: u32, step: u32) -> f32 {
  let lane = targets[n] / WIDTH;
  if (lane % step != first) { return 0.0; }
  return total(logits[n * (dims.V / WIDTH) + lane] * one_hot(lane * WIDTH, targets[n]));
}
fn write_gradients(n: u32, most: f32, sum: f32, first: u32, step: u32) {
  let chunks = dims.V / WIDTH;
  for (var v = first; v < chunks; v += step) {
    let i = n * chunks + v;
    logits[i] = (exp(logits[i] - most) / sum - one_hot(v * WIDTH, targets[n])) * dims.scale;
  }
}
fn gradient_of(logit: Lane, v: u32, target_id: u32, softmax: Softmax) -> Lane {
  return (exp(logit - softmax.most) / softmax.sum - one_hot(v * WIDTH, target_id)) * dims.scale;
}
// The same by a workgroup, four loads at a time.
fn write_team_gradients(n: u32, softmax: Softmax, lane: u32) {
  let chunks = dims.V / WIDTH;
  let row = n * chunks;
  let target_id = targets[n];
  var v = lane;
  for (; v + 3u * TEAM < chunks; v += 4u * TEAM) {
    let a = logits[row + v];
    let b = logits[row + v + TEAM];
    let c = logits[row + v + 2u * TEAM];
    let d = logits[row + v + 3u * TEAM];
    logits[row + v] = gradient_of(a, v, target_id, softmax);
    logits[row + v + TEAM] = gradient_of(b, v + TEAM, target_id, softmax);
    logits[row + v + 2u * TEAM] = gradient_of(c, v + 2u * TEAM, target_id, softmax);
    logits[row + v + 3u * TEAM] = gradient_of(d, v + 3u * TEAM, target_id, softmax);
  }
  for (; v < chunks; v += TEAM) { logits[row + v] = gradient_of(logits[row + v], v, target_id, softmax); }
}

// One invocation a row.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let n = id.y * groups.x * ROWS + id.x;
  if (n >= dims.N) { return; }
  let most = largest_of(n, 0u, 1u);
  let sum = exponentials_of(n, most, 0u, 1u);
  loss[n] = log(sum) + (most - correct_of(n, 0u, 1u));
  write_gradients(n, most, sum, 0u, 1u);
}

// One workgroup a row.
@compute @workgroup_size(TEAM)
fn workgroups(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let n = group.y * groups.x + group.x;
  if (n >= dims.N) { return; }
  let softmax = team_softmax(n, lane);
  let correct = workgroup_total(lane, correct_of(n, lane, TEAM));
  if (lane == 0u) { loss[n] = log(softmax.sum) + (softmax.most - correct); }
  write_team_gradients(n, softmax, lane);
}
