// packInt8.wgsl for any n: past the end there are zeros.
struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
@group(1) @binding(0) var<uniform> dims: Dims;

fn four_at(i: u32) -> vec4f {
  var four = vec4f();
  for (var j = 0u; j < min(4u, dims.n - i); j++) { four[j] = x[i + j]; }
  return four;
}
fn leave(i: u32, rest: vec4f) {}
