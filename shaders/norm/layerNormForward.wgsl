// y = (x − mean)·r·weight + bias with r = 1/√(variance + epsilon), row by row; stat keeps (mean, r) for the backward.
// The variance is summed from x − mean in a second pass: E[x²] − mean² would lose half the digits.
struct Dims { N: u32, C: u32, epsilon: f32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> weight: array<Lane>;
@group(0) @binding(2) var<storage, read> bias: array<Lane>;
@group(0) @binding(3) var<storage, read_write> y: array<Lane>;
@group(0) @binding(4) var<storage, read_write> stat: array<vec2f>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Each of these walks over lanes `first`, first + step, … of row n.
fn sum_of(n: u32, first: u32, step: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = first; c < chunks; c += step) { sum += x[n * chunks + c]; }
  return total(sum);
}
fn squares_of(n: u32, mean: f32, first: u32, step: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = first; c < chunks; c += step) {
    let centred = x[n * chunks + c] - mean;
    sum += centred * centred;
  }
  return total(sum);
}
fn write_row(n: u32, mean: f32, variance: f32, first: u32, step: u32) {
  let chunks = dims.C / WIDTH;
  let r = 1.0 / sqrt(variance + dims.epsilon);
  for (var c = first; c < chunks; c += step) {
    y[n * chunks + c] = (x[n * chunks + c] - mean) * r * weight[c] + bias[c];
  }
  if (first == 0u) { stat[n] = vec2f(mean, r); }
}

// One invocation a row.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let n = id.y * groups.x * ROWS + id.x;
  if (n >= dims.N) { return; }
  let mean = sum_of(n, 0u, 1u) / f32(dims.C);
  write_row(n, mean, squares_of(n, mean, 0u, 1u) / f32(dims.C), 0u, 1u);
}

// One workgroup a row.
@compute @workgroup_size(TEAM)
fn workgroups(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let n = group.y * groups.x + group.x;
  if (n >= dims.N) { return; }
  let mean = workgroup_total(lane, sum_of(n, lane, TEAM)) / f32(dims.C);
  write_row(n, mean, workgroup_total(lane, squares_of(n, mean, lane, TEAM)) / f32(dims.C), lane, TEAM);
}
