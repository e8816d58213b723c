// Gradient of a row's input. With x̂ = (x − mean)·r and g = dy·weight:
//   dx = r·(g − mean(g) − x̂·mean(g·x̂)),   set or added to what dx holds.
struct Dims { N: u32, C: u32, accumulate: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<vec2f>;
@group(0) @binding(2) var<storage, read> weight: array<Lane>;
@group(0) @binding(3) var<storage, read> dy: array<Lane>;
@group(0) @binding(4) var<storage, read_write> dx: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

// (Σ g, Σ g·x̂) over lanes `first`, first + step, … of row n.
fn sums_of(n: u32, first: u32, step: u32) -> vec2f {
  let chunks = dims.C / WIDTH;
  let s = stat[n];
  var g_sum = Lane();
  var gx_sum = Lane();
  for (var c = first; c < chunks; c += step) {
    let g = dy[n * chunks + c] * weight[c];
    g_sum += g;
    gx_sum += g * ((x[n * chunks + c] - s.x) * s.y);
  }
  return vec2f(total(g_sum), total(gx_sum));
}
fn write_row(n: u32, means: vec2f, first: u32, step: u32) {
  let chunks = dims.C / WIDTH;
  let s = stat[n];
  for (var c = first; c < chunks; c += step) {
    let i = n * chunks + c;
    var value = s.y * (dy[i] * weight[c] - means.x - (x[i] - s.x) * s.y * means.y);
    if (dims.accumulate != 0u) { value += dx[i]; }
    dx[i] = value;
  }
}

// One invocation a row.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let n = id.y * groups.x * ROWS + id.x;
  if (n >= dims.N) { return; }
  write_row(n, sums_of(n, 0u, 1u) / f32(dims.C), 0u, 1u);
}

// One workgroup a row.
@compute @workgroup_size(TEAM)
fn workgroups(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) lane: u32,
) {
  let n = group.y * groups.x + group.x;
  if (n >= dims.N) { return; }
  let sums = sums_of(n, lane, TEAM);
  let means = vec2f(workgroup_total(lane, sums.x), workgroup_total(lane, sums.y)) / f32(dims.C);
  write_row(n, means, lane, TEAM);
}
