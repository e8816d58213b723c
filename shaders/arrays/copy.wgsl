// y[offset + i] = x[i]. One invocation a lane.
struct Dims { n: u32, offset: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read_write> y: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.y * groups.x * GROUP + id.x;
  if (i >= dims.n / WIDTH) { return; }
  y[dims.offset / WIDTH + i] = x[i];
}
