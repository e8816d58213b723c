// x[n] = token[ids[n]] + position[n mod T]. One invocation for each lane of x_NC.
struct Dims { N: u32, T: u32, C: u32 }
@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> token: array<Lane>;
@group(0) @binding(2) var<storage, read> position: array<Lane>;
@group(0) @binding(3) var<storage, read_write> x: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  x[index] = token[ids[n] * chunks + chunk] + position[(n % dims.T) * chunks + chunk];
}
