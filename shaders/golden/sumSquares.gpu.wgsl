// sumSquares.gpu for {n:437760,accumulate:1}
struct Dims { n: u32, accumulate: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x[i]; }
@group(0) @binding(1) var<storage, read_write> partials: array<f32>;
fn load_partials(i: u32) -> f32 { return partials[i]; }
fn store_partials(i: u32, value: f32) { partials[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
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
const PARTIALS = 256u;
const BLOCK = 256u;
// sumSquares.wgsl for GPUs. Sums of one lane of each of partial p's blocks, by the TEAM invocations of a workgroup: as many
// blocks at a time as they have lanes for, four such rounds in flight.
fn square_at(block: u32, lane: u32) -> Lane {
  let i = block * (BLOCK / WIDTH) + lane;
  if (i >= dims.n / WIDTH) { return Lane(); }
  return load_x(i) * load_x(i);
}
fn squares_of(p: u32, lane: u32) -> f32 {
  let block_chunks = BLOCK / WIDTH;
  let blocks = (dims.n / WIDTH + block_chunks - 1u) / block_chunks;
  let i = lane % block_chunks;
  let stride = TEAM / block_chunks * PARTIALS;
  var sum0 = Lane(); var sum1 = Lane(); var sum2 = Lane(); var sum3 = Lane();
  for (var block = p + lane / block_chunks * PARTIALS; block < blocks; block += 4u * stride) {
    sum0 += square_at(block, i);
    sum1 += square_at(block + stride, i);
    sum2 += square_at(block + 2u * stride, i);
    sum3 += square_at(block + 3u * stride, i);
  }
  return total((sum0 + sum1) + (sum2 + sum3));
}

fn row(p: u32, lane: u32) {
  let sum = team_total(lane, squares_of(p, lane));
  if (lane == 0u) { store_partials(p, sum + select(0.0, load_partials(p), dims.accumulate == 1u)); }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
