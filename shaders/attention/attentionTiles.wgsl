// For GPUs: a workgroup takes a tile of 32 rows of one head (its own) and walks over tiles of 32 other rows. Its 8×8
// invocations make every product of two tiles: invocation (r, c) those of own rows r, r + 8, … with other rows c, c + 8, …
// (scores, where strips of both tiles' width lie in workgroup memory), or with lane c of a strip (weighted sums of the other
// rows). So eight reads of a lane from workgroup memory feed 64 multiply-adds, and an invocation holds a row's sums for an
// eighth of the width. Workgroup memory, 14.5 KiB of the 16 that WebGPU grants, does not depend on the width.
//
// Whoever indexes workgroup memory takes r and c modulo SIDE, which they are below: what a function is given has no range
// that Tint knows, and each access would be bounded by itself.
const TILE = 32u;
const SIDE = 8u; // invocations along a tile's side, four rows each
const STRIP = SIDE; // lanes of the width that are staged at once
const WHOLE = CHUNKS / STRIP * STRIP; // lanes of whole strips; the last one may be shorter
// One lane more than a strip, so that neighbouring rows begin in different banks.
const PITCH = STRIP + 1u;

var<workgroup> own: array<Lane, TILE * PITCH>;
var<workgroup> other: array<Lane, TILE * PITCH>;
// [other row][r]: what the other row counts in each of the four own rows r, r + 8, …
var<workgroup> weights: array<vec4f, TILE * PITCH>;
var<workgroup> across: array<vec4f, SIDE * SIDE>;

struct Place { r: u32, c: u32 }
fn place_of(local: u32) -> Place { return Place(local / SIDE, local % SIDE); }
// Four rows of a tile: the first, and those SIDE apart. Rows past the end are the last one again, and count nothing.
fn rows_of(first: u32) -> vec4u { return first + SIDE * STEPS; }
fn inside(rows: vec4u) -> vec4u { return min(rows, vec4u(dims.T - 1u)); }
// Lanes past the width are the last one again, and make no sum; of one side they are zero, and make no score.
fn in_strip(chunk: u32) -> u32 { return min(chunk, CHUNKS - 1u); }
fn in_width(tile: Tile, chunk: u32) -> Tile {
  if (WHOLE < CHUNKS && chunk >= CHUNKS) { return Tile(); }
  return tile;
}

// Which of the own queries see a key.
fn seen_by(queries: vec4u, firsts: vec4u, key: u32) -> vec4<bool> {
  return (vec4u(key) >= firsts) & (vec4u(key) <= queries);
}
// The tile of keys at which a tile of queries begins: its first query sees the least key.
fn first_tile(row: u32) -> u32 { return load_first_BT(row) / TILE * TILE; }

// Lane c of rows r, r + 8, … of a strip.
fn stage_own(at: Place, tile: Tile) {
  let i = at.r % SIDE * PITCH + at.c % SIDE;
  own[i] = tile[0];
  own[i + SIDE * PITCH] = tile[1];
  own[i + 2u * SIDE * PITCH] = tile[2];
  own[i + 3u * SIDE * PITCH] = tile[3];
}
fn stage_other(at: Place, tile: Tile) {
  let i = at.r % SIDE * PITCH + at.c % SIDE;
  other[i] = tile[0];
  other[i + SIDE * PITCH] = tile[1];
  other[i + 2u * SIDE * PITCH] = tile[2];
  other[i + 3u * SIDE * PITCH] = tile[3];
}
// A column of `weights` for each of the other rows c, c + 8, …: this invocation's, who may read it again at once.
fn keep_weights(at: Place, w: mat4x4f) {
  let i = at.c % SIDE * PITCH + at.r % SIDE;
  weights[i] = w[0];
  weights[i + SIDE * PITCH] = w[1];
  weights[i + 2u * SIDE * PITCH] = w[2];
  weights[i + 3u * SIDE * PITCH] = w[3];
}
fn kept_weights(at: Place) -> mat4x4f {
  let i = at.c % SIDE * PITCH + at.r % SIDE;
  return mat4x4f(
    weights[i], weights[i + SIDE * PITCH], weights[i + 2u * SIDE * PITCH], weights[i + 3u * SIDE * PITCH],
  );
}
// What the eight invocations of the same own rows have in `across`.
fn largest_across(at: Place) -> vec4f {
  let i = at.r % SIDE * SIDE;
  let first = max(max(across[i], across[i + 1u]), max(across[i + 2u], across[i + 3u]));
  return max(first, max(max(across[i + 4u], across[i + 5u]), max(across[i + 6u], across[i + 7u])));
}
fn total_across(at: Place) -> vec4f {
  let i = at.r % SIDE * SIDE;
  var sum = across[i] + across[i + 1u];
  sum += across[i + 2u];
  sum += across[i + 3u];
  sum += across[i + 4u];
  sum += across[i + 5u];
  sum += across[i + 6u];
  return sum + across[i + 7u];
}
