// For GPUs: a workgroup takes a tile of 32 rows of one head (its own) and walks over tiles of 32 other rows. Its 8×8
// invocations make every product of two tiles: invocation (r, c) those of own rows r, r + 8, … with other rows c, c + 8, …
// (scores, where strips of both tiles' width lie in workgroup memory), or with lane c of a strip (weighted sums of the other
// rows). So eight reads of a lane from workgroup memory feed 64 multiply-adds, and an invocation holds a row's sums for an
// eighth of the width. Workgroup memory, 14.5 KiB of the 16 that WebGPU grants, does not depend on the width.
const TILE = 32u;
const SIDE = 8u; // invocations along a tile's side, four rows each
const STRIP = SIDE; // lanes of the width that are staged at once
// One lane more than a strip, so that neighbouring rows begin in different banks.
const PITCH = STRIP + 1u;

var<workgroup> own: array<Lane, TILE * PITCH>;
var<workgroup> other: array<Lane, TILE * PITCH>;
// [other row][r]: what the other row counts in each of the four own rows r, r + 8, …
var<workgroup> weights: array<vec4f, TILE * PITCH>;
var<workgroup> across: array<vec4f, SIDE * SIDE>;

struct Place {
  r: u32, c: u32,
  staged: u32, // where this invocation puts lane c of rows r, r + 8, … of a strip
}
fn place_of(local: u32) -> Place {
  let r = local / SIDE;
  let c = local % SIDE;
  return Place(r, c, r * PITCH + c);
}
// Four rows of a tile: the first, and those SIDE apart. Rows past the end are the last one again, and count nothing.
fn rows_of(first: u32) -> vec4u { return first + SIDE * STEPS; }
fn inside(rows: vec4u) -> vec4u { return min(rows, vec4u(dims.T - 1u)); }
// The last strip may be shorter than the others: lanes past the width are the last one again, and make no score and no sum.
fn in_strip(chunk: u32) -> u32 { return min(chunk, CHUNKS - 1u); }
fn lanes_of(strip: u32) -> u32 { return min(STRIP, dims.D / WIDTH - strip); }

fn stage_own(at: u32, tile: Tile) {
  own[at] = tile[0];
  own[at + SIDE * PITCH] = tile[1];
  own[at + 2u * SIDE * PITCH] = tile[2];
  own[at + 3u * SIDE * PITCH] = tile[3];
}
fn stage_other(at: u32, tile: Tile) {
  other[at] = tile[0];
  other[at + SIDE * PITCH] = tile[1];
  other[at + 2u * SIDE * PITCH] = tile[2];
  other[at + 3u * SIDE * PITCH] = tile[3];
}
// The staged strips' part of the scores: a column for each other row, in it an entry for each own row.
fn strip_scores(before: mat4x4f, r: u32, c: u32, lanes: u32) -> mat4x4f {
  var s = before;
  for (var k = 0u; k < lanes; k++) {
    let a = r * PITCH + k;
    let b = c * PITCH + k;
    s = add_scores(
      s,
      Tile(own[a], own[a + SIDE * PITCH], own[a + 2u * SIDE * PITCH], own[a + 3u * SIDE * PITCH]),
      Tile(other[b], other[b + SIDE * PITCH], other[b + 2u * SIDE * PITCH], other[b + 3u * SIDE * PITCH]),
    );
  }
  return s;
}
// A column of `weights` for each of the other rows c, c + 8, …
fn keep_weights(r: u32, c: u32, w: mat4x4f) {
  let at = c * PITCH + r;
  weights[at] = w[0];
  weights[at + SIDE * PITCH] = w[1];
  weights[at + 2u * SIDE * PITCH] = w[2];
  weights[at + 3u * SIDE * PITCH] = w[3];
}
// Sums of the other rows' lane c of the staged strip, by weight: one column for each own row.
fn weighted(before: Tile, r: u32, c: u32) -> Tile {
  var sum = before;
  for (var row = 0u; row < TILE; row += 4u) {
    let w = row * PITCH + r;
    let v = row * PITCH + c;
    sum = add_outer(sum, other[v], weights[w]);
    sum = add_outer(sum, other[v + PITCH], weights[w + PITCH]);
    sum = add_outer(sum, other[v + 2u * PITCH], weights[w + 2u * PITCH]);
    sum = add_outer(sum, other[v + 3u * PITCH], weights[w + 3u * PITCH]);
  }
  return sum;
}
