// Softmax cross-entropy of each row without a gradient, for evaluation:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target], the row's maximum taken off before every exp.
struct Dims { N: u32, V: u32 }
@group(0) @binding(0) var<storage, read> logits: array<Lane>;
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
fn write_loss(n: u32, most: f32, sum: f32) {
  let lane = targets[n] / WIDTH;
  let correct = total(logits[n * (dims.V / WIDTH) + lane] * one_hot(lane * WIDTH, targets[n]));
  loss[n] = log(sum) + (most - correct);
}

// One invocation a row.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let n = id.y * groups.x * ROWS + id.x;
  if (n >= dims.N) { return; }
  let most = largest_of(n, 0u, 1u);
  write_loss(n, most, exponentials_of(n, most, 0u, 1u));
}

// One workgroup a row.
@compute @workgroup_size(TEAM)
fn workgroups(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let n = group.y * groups.x + group.x;
  if (n >= dims.N) { return; }
  let softmax = team_softmax(n, lane);
  if (lane == 0u) { write_loss(n, softmax.most, softmax.sum); }
}
