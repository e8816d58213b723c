// Reductions over the GROUP invocations of a workgroup, in a fixed order. For GPUs only: on a software adapter every
// barrier switches stacks. Each call needs all invocations of the workgroup.
var<workgroup> shared_values: array<f32, GROUP>;

fn workgroup_total(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  for (var half = GROUP / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { shared_values[lane] += shared_values[lane + half]; }
  }
  // The load waits for all of them before and after, so the next call may write again.
  return workgroupUniformLoad(&shared_values[0]);
}

fn workgroup_largest(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  for (var half = GROUP / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { shared_values[lane] = max(shared_values[lane], shared_values[lane + half]); }
  }
  return workgroupUniformLoad(&shared_values[0]);
}
