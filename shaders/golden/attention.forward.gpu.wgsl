// attention.forward.gpu for {B:1,T:1,H:1,K:1,D:1,scale:1}
struct Dims { B: u32, T: u32, H: u32, K: u32, D: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> qkv_BTED: array<f32>;
fn load_qkv_BTED(i: u32) -> f32 { return qkv_BTED[i]; }
@group(0) @binding(1) var<storage, read> first_BT: array<u32>;
fn load_first_BT(i: u32) -> u32 { return first_BT[i]; }
@group(0) @binding(2) var<storage, read_write> y_BTHD: array<f32>;
fn load_y_BTHD(i: u32) -> f32 { return y_BTHD[i]; }
fn store_y_BTHD(i: u32, value: f32) { y_BTHD[i] = value; }
@group(0) @binding(3) var<storage, read_write> lse_BHT: array<f32>;
fn load_lse_BHT(i: u32) -> f32 { return lse_BHT[i]; }
fn store_lse_BHT(i: u32, value: f32) { lse_BHT[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
// What attention does with lanes of one float. Twin of tilesOfLanes.wgsl.
// Four lanes side by side: one column for each row of a tensor.
alias Tile = vec4f;
// scores[i][j] = a[j]·b[i]
fn scores(a: Tile, b: Tile) -> mat4x4f { return mat4x4f(a * b.x, a * b.y, a * b.z, a * b.w); }
// s + scores
fn add_scores(s: mat4x4f, a: Tile, b: Tile) -> mat4x4f {
  return mat4x4f(s[0] + a * b.x, s[1] + a * b.y, s[2] + a * b.z, s[3] + a * b.w);
}
// outer[i] = a·by[i]
fn outer(a: Lane, by: vec4f) -> Tile { return a * by; }
fn add_outer(t: Tile, a: Lane, by: vec4f) -> Tile { return t + a * by; }
fn scale_columns(t: Tile, by: vec4f) -> Tile { return t * by; }
fn column_dots(a: Tile, b: Tile) -> vec4f { return a * b; }
const HEADS = 1u;
const CHUNKS = 1u;
const SLICE = 8u;
// What the three attention kernels share: how the work is cut (see attention.ts), queries, keys and values, sums.
// CHUNKS: lanes in a head's width D. SLICE: lanes of it whose sums one invocation (of a software adapter) or one workgroup
// (of a GPU) accumulates. On a software adapter SLICE is 4 or 8, and HEADS are the invocations of a
// workgroup, each with four rows of a head of its own.

const STEPS = vec4u(0, 1, 2, 3);
// Lanes of a slice of eight. With four they are in range, and never used.
const C4 = 4u % SLICE;
const C5 = 5u % SLICE;
const C6 = 6u % SLICE;
const C7 = 7u % SLICE;
const HIDDEN = -3.0e38;

// The first key that each of four rows sees.
fn firsts_of(rows: vec4u) -> vec4u {
  return vec4u(load_first_BT(rows.x), load_first_BT(rows.y), load_first_BT(rows.z), load_first_BT(rows.w));
}
fn total4(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest4(x: vec4f) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }

// First lane of a slice. Known to the compiler where there is only one, which spares it every check against CHUNKS.
fn first_chunk(slice: u32) -> u32 {
  if (CHUNKS <= SLICE) { return 0u; }
  return slice * SLICE;
}

// Four rows of qkv, at lane `chunk` after each row's start.
fn qkv_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_qkv_BTED(rows.x + chunk), load_qkv_BTED(rows.y + chunk),
    load_qkv_BTED(rows.z + chunk), load_qkv_BTED(rows.w + chunk),
  );
}
// One lane of qkv, zero past the head's width: the last slice may be shorter than the others.
fn qkv_lane(row: u32, chunk: u32) -> Lane {
  var lane = Lane();
  if (chunk < CHUNKS) { lane = load_qkv_BTED(row + chunk); }
  return lane;
}
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
fn strip_scores(before: mat4x4f, at: Place, strip: u32) -> mat4x4f {
  var s = before;
  for (var turn = 0u; turn < 1u; turn++) {
    let a = turn * 1u + at.r % SIDE * PITCH;
    let b = turn * 1u + at.c % SIDE * PITCH;
    s = add_scores(s, Tile(own[a], own[a + 72u], own[a + 144u], own[a + 216u]), Tile(other[b], other[b + 72u], other[b + 144u], other[b + 216u]));
  }
  return s;
}
fn weighted(before: Tile, at: Place) -> Tile {
  var sum = before;
  for (var four = 0u; four < 8u; four++) {
    let v = four * (4u * PITCH) + at.c % SIDE;
    let w = four * (4u * PITCH) + at.r % SIDE;
    sum = add_outer(sum, other[v], weights[w]);
    sum = add_outer(sum, other[v + 9u], weights[w + 9u]);
    sum = add_outer(sum, other[v + 18u], weights[w + 18u]);
    sum = add_outer(sum, other[v + 27u], weights[w + 27u]);
  }
  return sum;
}
// For GPUs: own rows are queries, other ones keys and values (attentionTiles.wgsl).

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_y_BTHD(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_y_BTHD(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_y_BTHD(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_y_BTHD(at.w + chunk, tile[3]); }
}
// A strip of the values, summed by weight onto what the keys before have left.
fn add_values(before: Tile, shrink: vec4f, at: Place, v_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, qkv_tile(v_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(scale_columns(before, shrink), at);
  workgroupBarrier();
  return sum;
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let h = group.x % dims.H; // group.x is b·H + h
  let sample_row = group.x / dims.H * dims.T;
  let first = TILE * ((dims.T - 1u) / TILE - group.y); // the longest walks start first
  let slice = first_chunk(group.z);
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let k_lane = width + h / (dims.H / dims.K) * CHUNKS;
  let v_lane = k_lane + dims.K * CHUNKS;
  let queries = rows_of(first + at.r);
  let q_at = (sample_row + inside(queries)) * row_lanes + h * CHUNKS;
  let firsts = firsts_of(sample_row + inside(queries));
  let scale = dims.scale;

  var y0 = Tile(); var y1 = Tile(); var y2 = Tile(); var y3 = Tile();
  var most = vec4f(HIDDEN); // of each own query: largest score so far,
  var sum = vec4f(0); // and this invocation's part of the sum of exp(score − largest)

  for (var key = first_tile(sample_row + first); key <= first; key += TILE) {
    let staged = (sample_row + inside(rows_of(key + at.r))) * row_lanes;
    var s = mat4x4f();
    for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
      stage_own(at, qkv_tile(q_at, in_strip(strip + at.c)));
      stage_other(at, in_width(qkv_tile(staged + k_lane, in_strip(strip + at.c)), strip + at.c));
      workgroupBarrier();
      s = strip_scores(s, at, strip);
      workgroupBarrier();
    }
    // Those keys that a query may not see get a score whose exp is 0.
    let keys = rows_of(key + at.c);
    let s0 = select(vec4f(HIDDEN), s[0] * scale, seen_by(queries, firsts, keys.x));
    let s1 = select(vec4f(HIDDEN), s[1] * scale, seen_by(queries, firsts, keys.y));
    let s2 = select(vec4f(HIDDEN), s[2] * scale, seen_by(queries, firsts, keys.z));
    let s3 = select(vec4f(HIDDEN), s[3] * scale, seen_by(queries, firsts, keys.w));
    across[local % (SIDE * SIDE)] = max(max(s0, s1), max(s2, s3));
    workgroupBarrier();
    let most_new = max(most, largest_across(at));
    let p = mat4x4f(exp(s0 - most_new), exp(s1 - most_new), exp(s2 - most_new), exp(s3 - most_new));
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + ((p[0] + p[1]) + (p[2] + p[3]));
    keep_weights(at, p);
    let v_at = staged + v_lane;
    y0 = add_values(y0, shrink, at, v_at, slice);
    if (SLICE > STRIP) { y1 = add_values(y1, shrink, at, v_at, slice + STRIP); }
    if (SLICE > 2u * STRIP) { y2 = add_values(y2, shrink, at, v_at, slice + 2u * STRIP); }
    if (SLICE > 3u * STRIP) { y3 = add_values(y3, shrink, at, v_at, slice + 3u * STRIP); }
  }

  across[local % (SIDE * SIDE)] = sum;
  workgroupBarrier();
  let whole = total_across(at);
  let share = 1.0 / whole;
  let y_at = (sample_row + inside(queries)) * width + h * CHUNKS;
  store(queries, slice + at.c, scale_columns(y0, share), y_at);
  if (SLICE > STRIP) { store(queries, slice + STRIP + at.c, scale_columns(y1, share), y_at); }
  if (SLICE > 2u * STRIP) { store(queries, slice + 2u * STRIP + at.c, scale_columns(y2, share), y_at); }
  if (SLICE > 3u * STRIP) { store(queries, slice + 3u * STRIP + at.c, scale_columns(y3, share), y_at); }
  if (group.z == 0u && at.c == 0u) {
    let value = most + log(whole);
    let row = group.x * dims.T;
    if (queries.x < dims.T) { store_lse_BHT(row + queries.x, value.x); }
    if (queries.y < dims.T) { store_lse_BHT(row + queries.y, value.y); }
    if (queries.z < dims.T) { store_lse_BHT(row + queries.z, value.z); }
    if (queries.w < dims.T) { store_lse_BHT(row + queries.w, value.w); }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
