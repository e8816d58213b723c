// Floats from the range and codes of each tile, rotated back, times gain. One invocation a tile.

fn item(tile: u32) {
  let first = 32u * tile;
  if (first >= dims.n) { return; }
  let word = words_of(tile);
  let range = unpack2x16float(load_packed(word));
  let step = (range.y - range.x) * (1.0 / 15.0);
  var values: Tile;
  for (var i = 0u; i < 8u; i++) {
    let codes = load_packed(word + 1u + i / 2u) >> (16u * (i % 2u));
    let levels = (vec4u(codes) >> vec4u(0, 4, 8, 12)) & vec4u(15);
    values[i] = range.x + vec4f(levels) * step;
  }
  let rotation = load_packed(rotations_of(tile)) >> (6u * (tile % TILES));
  if ((rotation & 32u) != 0u) {
    rotate(&values);
    swap_with_first(&values, rotation & 31u);
  }
  for (var j = 0u; j < min(32u, dims.n - first); j++) { store_x(first + j, values[j / 4u][j % 4u] * dims.gain); }
}
