// packInt8Difference.wgsl for any n: past the end there are zeros.

fn four_at(i: u32) -> vec4f {
  var four = vec4f();
  for (var j = 0u; j < min(4u, dims.n - i); j++) { four[j] = load_x(i + j) - load_held(i + j); }
  return four;
}
fn leave(i: u32, four: vec4f, sent: vec4f) {
  for (var j = 0u; j < min(4u, dims.n - i); j++) { store_held(i + j, load_held(i + j) + sent[j]); }
}
