// x[2i], x[2i + 1] = the halves of packed[i], times gain. One invocation a word.
struct Dims { n: u32, gain: f32 }
@group(0) @binding(0) var<storage, read> packed: array<u32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.y * groups.x * GROUP + id.x;
  if (2u * i >= dims.n) { return; }
  let pair = unpack2x16float(packed[i]) * dims.gain;
  x[2u * i] = pair.x;
  if (2u * i + 1u < dims.n) { x[2u * i + 1u] = pair.y; }
}
