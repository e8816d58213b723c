// rmsNorm.backward.gpu for {N:37,C:60,offset:0,accumulate:0}
struct Dims { N: u32, C: u32, offset: f32, accumulate: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
@group(0) @binding(1) var<storage, read> stat_N: array<f32>;
fn load_stat_N(i: u32) -> f32 { return stat_N[i]; }
@group(0) @binding(2) var<storage, read> weight_C: array<vec4f>;
fn load_weight_C(i: u32) -> vec4f { return weight_C[i]; }
@group(0) @binding(3) var<storage, read> dy_NC: array<vec4f>;
fn load_dy_NC(i: u32) -> vec4f { return dy_NC[i]; }
@group(0) @binding(4) var<storage, read_write> dx_NC: array<vec4f>;
fn load_dx_NC(i: u32) -> vec4f { return dx_NC[i]; }
fn store_dx_NC(i: u32, value: vec4f) { dx_NC[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
const TEAM = 64u;
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
// Gradient of a row's input. With x̂ = x·r and g = dy·(offset + weight):
//   dx = r·(g − x̂·mean(g·x̂)),   set or added to what dx holds.

fn g_of(i: u32, c: u32) -> Lane { return load_dy_NC(i) * (dims.offset + load_weight_C(c)); }

// Σ g·x̂ over lanes `lane`, lane + TEAM, … of row n.
fn sum_of(n: u32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  let r = load_stat_N(n);
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) { sum += g_of(n * chunks + c, c) * (load_x_NC(n * chunks + c) * r); }
  return total(sum);
}
fn write_row(n: u32, sum: f32, lane: u32) {
  let chunks = dims.C / WIDTH;
  let r = load_stat_N(n);
  let mean = sum / f32(dims.C);
  for (var c = lane; c < chunks; c += TEAM) {
    let i = n * chunks + c;
    var value = r * (g_of(i, c) - load_x_NC(i) * r * mean);
    if (dims.accumulate != 0u) { value += load_dx_NC(i); }
    store_dx_NC(i, value);
  }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  write_row(n, team_total(lane, sum_of(n, lane)), lane);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
