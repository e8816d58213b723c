// attention.backwardKeyValue.gpu for {B:1,T:1,H:1,K:1,D:1,scale:1}
struct Dims { B: u32, T: u32, H: u32, K: u32, D: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> qkv_BTED: array<f32>;
fn load_qkv_BTED(i: u32) -> f32 { return qkv_BTED[i]; }
@group(0) @binding(1) var<storage, read> first_BT: array<u32>;
fn load_first_BT(i: u32) -> u32 { return first_BT[i]; }
@group(0) @binding(2) var<storage, read> lse_BHT: array<f32>;
fn load_lse_BHT(i: u32) -> f32 { return lse_BHT[i]; }
@group(0) @binding(3) var<storage, read> delta_BHT: array<f32>;
fn load_delta_BHT(i: u32) -> f32 { return delta_BHT[i]; }
@group(0) @binding(4) var<storage, read> dy_BTHD: array<f32>;
fn load_dy_BTHD(i: u32) -> f32 { return dy_BTHD[i]; }
@group(0) @binding(5) var<storage, read_write> dqkv_BTED: array<f32>;
fn load_dqkv_BTED(i: u32) -> f32 { return dqkv_BTED[i]; }
fn store_dqkv_BTED(i: u32, value: f32) { dqkv_BTED[i] = value; }
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
// Backward of causal attention, the keys' and values' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i),
// ds_ij = p_ij·(dy_i·v_j − δ_i) and i ≥ j:
//   dk_j = scale·Σ_i ds_ij·q_i,   dv_j = Σ_i p_ij·dy_i,   summed over the heads of queries that read this head of keys

// Four rows of a tensor at lane `chunk` after each row's start.
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_dy_BTHD(rows.x + chunk), load_dy_BTHD(rows.y + chunk),
    load_dy_BTHD(rows.z + chunk), load_dy_BTHD(rows.w + chunk),
  );
}
// One lane, zero past the head's width: the last slice may be shorter than the others.
fn dy_lane(row: u32, chunk: u32) -> Lane {
  var lane = Lane();
  if (chunk < CHUNKS) { lane = load_dy_BTHD(row + chunk); }
  return lane;
}
// For GPUs: own rows are keys and values, other ones the queries of all heads that read them (attentionTiles.wgsl).

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_dqkv_BTED(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_dqkv_BTED(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_dqkv_BTED(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_dqkv_BTED(at.w + chunk, tile[3]); }
}
// Whether the queries from this row on see none of a tile of keys: rows see no earlier key than those before them.
fn is_past(first: u32, row: u32) -> bool { return load_first_BT(row) >= first + TILE; }
// p of the scores; queries past the end see no key. `rows`: where the queries' lse lies. `firsts`: of the keys that they see.
fn p_of(s: mat4x4f, keys: vec4u, queries: vec4u, rows: vec4u, firsts: vec4u) -> mat4x4f {
  let scale = dims.scale;
  let seeing = select(vec4u(0), queries + 1u, queries < vec4u(dims.T));
  return mat4x4f(
    select(vec4f(0), exp(s[0] * scale - load_lse_BHT(rows.x)), (keys >= vec4u(firsts.x)) & (keys < vec4u(seeing.x))),
    select(vec4f(0), exp(s[1] * scale - load_lse_BHT(rows.y)), (keys >= vec4u(firsts.y)) & (keys < vec4u(seeing.y))),
    select(vec4f(0), exp(s[2] * scale - load_lse_BHT(rows.z)), (keys >= vec4u(firsts.z)) & (keys < vec4u(seeing.z))),
    select(vec4f(0), exp(s[3] * scale - load_lse_BHT(rows.w)), (keys >= vec4u(firsts.w)) & (keys < vec4u(seeing.w))),
  );
}
// The weights that were kept are p; from here on they are ds.
fn keep_ds(at: Place, dp: mat4x4f, rows: vec4u) {
  let scale = dims.scale;
  let p = kept_weights(at);
  keep_weights(at, mat4x4f(
    p[0] * (dp[0] - load_delta_BHT(rows.x)) * scale, p[1] * (dp[1] - load_delta_BHT(rows.y)) * scale,
    p[2] * (dp[2] - load_delta_BHT(rows.z)) * scale, p[3] * (dp[3] - load_delta_BHT(rows.w)) * scale,
  ));
}
// Heads up to 64 wide: an invocation has registers for both sums. A strip of dy that is staged for dp is there for dv too, so
// it is summed at once, by p; then the weights are ds, and the queries are staged once more for dk.

fn stage_dy(at: Place, v_at: vec4u, y_at: vec4u, strip: u32) {
  let chunk = in_strip(strip + at.c);
  stage_own(at, qkv_tile(v_at, chunk));
  stage_other(at, in_width(dy_tile(y_at, chunk), strip + at.c));
  workgroupBarrier();
}

fn add_queries(before: Tile, at: Place, q_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, qkv_tile(q_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at);
  workgroupBarrier();
  return sum;
}

// q·k of a tile.
fn scores_of(at: Place, k_at: vec4u, q_at: vec4u) -> mat4x4f {
  var s = mat4x4f();
  for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
    stage_own(at, qkv_tile(k_at, in_strip(strip + at.c)));
    stage_other(at, in_width(qkv_tile(q_at, in_strip(strip + at.c)), strip + at.c));
    workgroupBarrier();
    s = strip_scores(s, at, strip);
    workgroupBarrier();
  }
  return s;
}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let key_head = group.x % dims.K; // group.x is b·K + key head
  let b = group.x / dims.K;
  let sample_row = b * dims.T;
  let first = TILE * group.y; // the longest walks start first
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let heads = dims.H / dims.K;
  let keys = rows_of(first + at.r);
  let k_at = (sample_row + inside(keys)) * row_lanes + width + key_head * CHUNKS;
  let v_at = k_at + dims.K * CHUNKS;

  var dk0 = Tile(); var dk1 = Tile();
  var dv0 = Tile(); var dv1 = Tile();
  for (var h = key_head * heads; h < (key_head + 1u) * heads; h++) {
    for (var query = first; query < dims.T; query += TILE) {
      if (is_past(first, sample_row + query)) { break; }
      let staged = sample_row + inside(rows_of(query + at.r));
      let q_at = staged * row_lanes + h * CHUNKS;
      let y_at = staged * width + h * CHUNKS;
      let queries = rows_of(query + at.c);
      let rows = (b * dims.H + h) * dims.T + inside(queries);
      let s = scores_of(at, k_at, q_at);
      keep_weights(at, p_of(s, keys, queries, rows, firsts_of(sample_row + inside(queries))));
      var dp = mat4x4f();
      stage_dy(at, v_at, y_at, 0u);
      dp = strip_scores(dp, at, 0u);
      dv0 = weighted(dv0, at);
      workgroupBarrier();
      if (CHUNKS > STRIP) {
        stage_dy(at, v_at, y_at, STRIP);
        dp = strip_scores(dp, at, STRIP);
        dv1 = weighted(dv1, at);
        workgroupBarrier();
      }
      keep_ds(at, dp, rows);
      dk0 = add_queries(dk0, at, q_at, 0u);
      if (CHUNKS > STRIP) { dk1 = add_queries(dk1, at, q_at, STRIP); }
    }
  }

  store(keys, at.c, dk0, k_at);
  store(keys, at.c, dv0, v_at);
  if (CHUNKS > STRIP) {
    store(keys, STRIP + at.c, dk1, k_at);
    store(keys, STRIP + at.c, dv1, v_at);
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
