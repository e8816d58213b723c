// Gradient of a row's input. With x̂ = x·r and g = dy·weight:
//   dx = r·(g − x̂·mean(g·x̂)),   set or added to what dx holds.
struct Dims { N: u32, C: u32, accumulate: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<Lane>;
@group(0) @binding(3) var<storage, read> dy: array<Lane>;
@group(0) @binding(4) var<storage, read_write> dx: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Σ g·x̂ over lanes `first`, first + step, … of row n.
fn sum_of(n: u32, first: u32, step: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  let r = stat[n];
  var sum = Lane();
  for (var c = first; c < chunks; c += step) { sum += dy[n * chunks + c] * weight[c] * (x[n * chunks + c] * r); }
  return total(sum);
}
fn write_row(n: u32, sum: f32, first: u32, step: u32) {
  let chunks = dims.C / WIDTH;
  let r = stat[n];
  let mean = sum / f32(dims.C);
  for (var c = first; c < chunks; c += step) {
    let i = n * chunks + c;
    var value = r * (dy[i] * weight[c] - x[i] * r * mean);
    if (dims.accumulate != 0u) { value += dx[i]; }
    dx[i] = value;
  }
}

// One invocation a row.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let n = id.y * groups.x * ROWS + id.x;
  if (n >= dims.N) { return; }
  write_row(n, sum_of(n, 0u, 1u), 0u, 1u);
}

// One workgroup a row.
@compute @workgroup_size(TEAM)
fn workgroups(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let n = group.y * groups.x + group.x;
  if (n >= dims.N) { return; }
  write_row(n, workgroup_total(lane, sum_of(n, lane, TEAM)), lane, TEAM);
}
