// A tile of 32 elements in eight vectors, and the orthogonal rotation that is its own inverse: the Hadamard matrix / √32.
alias Tile = array<vec4f, 8>;
const HADAMARD = 0.17677669529663687; // 1 / √32

fn rotate(tile: ptr<function, Tile>) {
  for (var i = 0u; i < 8u; i++) {
    let a = (*tile)[i];
    let b = vec4f(a.x + a.y, a.x - a.y, a.z + a.w, a.z - a.w);
    (*tile)[i] = vec4f(b.x + b.z, b.y + b.w, b.x - b.z, b.y - b.w);
  }
  for (var half = 1u; half < 8u; half *= 2u) {
    for (var i = 0u; i < 8u; i++) {
      if ((i & half) != 0u) { continue; }
      let a = (*tile)[i];
      let b = (*tile)[i + half];
      (*tile)[i] = a + b;
      (*tile)[i + half] = a - b;
    }
  }
  for (var i = 0u; i < 8u; i++) { (*tile)[i] *= HADAMARD; }
}

fn swap_with_first(tile: ptr<function, Tile>, place: u32) {
  let first = (*tile)[0].x;
  (*tile)[0].x = (*tile)[place / 4u][place % 4u];
  (*tile)[place / 4u][place % 4u] = first;
}

// Where the words of a tile begin: a word of how they are rotated stands before each TILES tiles.
fn words_of(tile: u32) -> u32 { return tile * TILE_WORDS + tile / TILES + 1u; }
fn rotations_of(tile: u32) -> u32 { return (tile / TILES) * (TILES * TILE_WORDS + 1u); }
