// acc[i] += code·scale of its block. One invocation a word of codes; in a whole block there are BLOCK / 4 of them.

fn item(word: u32) {
  let first = 4u * word;
  if (first >= dims.n) { return; }
  let block = first / BLOCK;
  let start = block * (1u + BLOCK / 4u);
  let scale = bitcast<f32>(load_packed(start));
  let codes = bitcast<i32>(load_packed(start + 1u + (first % BLOCK) / 4u));
  for (var j = 0u; j < min(4u, dims.n - first); j++) {
    store_acc(first + j, load_acc(first + j) + f32(extractBits(codes, 8u * j, 8u)) * scale);
  }
}
