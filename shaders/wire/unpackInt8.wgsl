// x[i] = code·scale of its block. One invocation a word of codes; in a whole block there are BLOCK / 4 of them.
struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read> packed: array<u32>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;

override BLOCK: u32;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let first = 4u * (id.y * groups.x * GROUP + id.x);
  if (first >= dims.n) { return; }
  let block = first / BLOCK;
  let start = block * (1u + BLOCK / 4u);
  let scale = bitcast<f32>(packed[start]);
  let codes = bitcast<i32>(packed[start + 1u + (first % BLOCK) / 4u]);
  for (var j = 0u; j < min(4u, dims.n - first); j++) { x[first + j] = f32(extractBits(codes, 8u * j, 8u)) * scale; }
}
