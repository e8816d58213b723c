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
