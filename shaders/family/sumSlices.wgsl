// Adds the sums of all slices, in order, to what they are slices of (slices.ts). `add` says what an element belongs to.
struct Dims { count: u32, floats: u32, elements: u32 }

@group(0) @binding(0) var<storage, read> slices: array<f32>;
@group(0) @binding(1) var<storage, read_write> c: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= dims.floats) { return; }
  var sum = slices[i];
  for (var slice = 1u; slice < dims.count; slice++) {
    sum += slices[slice * dims.floats + i];
  }
  add(i, sum);
}
