// dposition[t] += Σ_b dx[b·T + t]. One invocation for each lane of dposition_TC.
struct Dims { N: u32, T: u32, C: u32 }
@group(0) @binding(0) var<storage, read> dx: array<Lane>;
@group(0) @binding(1) var<storage, read_write> dposition: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.C / WIDTH;
  if (index >= dims.T * chunks) { return; }
  var sum = Lane();
  for (var i = index; i < dims.N * chunks; i += dims.T * chunks) { sum += dx[i]; }
  dposition[index] += sum;
}
