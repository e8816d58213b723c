// y = silu(gate)·up. One invocation for each lane of y_NI.
struct Dims { N: u32, I: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read_write> y: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = x[at];
  y[index] = gate / (1.0 + exp_minus(gate)) * x[at + chunks];
}
