// unpackInt4 for {n:1,gain:1}
struct Dims { n: u32, gain: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
fn store_x(i: u32, value: f32) { x[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const TILES = 5u;
const TILE_WORDS = 5u;
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

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
