// attention.backwardQuery.software for {B:1,T:1,H:1,K:1,D:1,scale:1}
struct Dims { B: u32, T: u32, H: u32, K: u32, D: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> qkv_BTED: array<f32>;
fn load_qkv_BTED(i: u32) -> f32 { return qkv_BTED[i]; }
@group(0) @binding(1) var<storage, read> first_BT: array<u32>;
fn load_first_BT(i: u32) -> u32 { return first_BT[i]; }
@group(0) @binding(2) var<storage, read> y_BTHD: array<f32>;
fn load_y_BTHD(i: u32) -> f32 { return y_BTHD[i]; }
@group(0) @binding(3) var<storage, read> lse_BHT: array<f32>;
fn load_lse_BHT(i: u32) -> f32 { return lse_BHT[i]; }
@group(0) @binding(4) var<storage, read> dy_BTHD: array<f32>;
fn load_dy_BTHD(i: u32) -> f32 { return dy_BTHD[i]; }
@group(0) @binding(5) var<storage, read_write> delta_BHT: array<f32>;
fn load_delta_BHT(i: u32) -> f32 { return delta_BHT[i]; }
fn store_delta_BHT(i: u32, value: f32) { delta_BHT[i] = value; }
@group(0) @binding(6) var<storage, read_write> dqkv_BTED: array<f32>;
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
const HEADS = 4u;
const CHUNKS = 1u;
const SLICE = 4u;
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
// Backward of causal attention, the queries' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i), j ≤ i:
//   δ_i = dy_i·y_i (kept for the other part),   ds_ij = p_ij·(dy_i·v_j − δ_i),   dq_i = scale·Σ_j ds_ij·k_j

// Four rows of a tensor at lane `chunk` after each row's start.
fn y_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_y_BTHD(rows.x + chunk), load_y_BTHD(rows.y + chunk),
    load_y_BTHD(rows.z + chunk), load_y_BTHD(rows.w + chunk),
  );
}
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_dy_BTHD(rows.x + chunk), load_dy_BTHD(rows.y + chunk),
    load_dy_BTHD(rows.z + chunk), load_dy_BTHD(rows.w + chunk),
  );
}
// For the texts in which an invocation takes four queries of one head: which they are, and where the head's lanes lie.

struct Queries {
  head: u32, // b·H + h
  first: u32, // of the four
  last: u32, // of all: those past it are not there
  sample_row: u32,
  width: u32, // lanes of a row of y
  row_lanes: u32, // lanes of a row of qkv
  head_lane: u32,
  k_lane: u32, // of the keys that this head reads
  scale: f32, // of a score
  firsts: vec4u, // of the keys that each sees; the first query's is the least
}

fn has_queries(id: vec3u) -> bool { return id.x < dims.B * dims.H && id.y < (dims.T + 3u) / 4u; }

// Which of the four see a key.
fn seen_by(at: Queries, key: u32) -> vec4<bool> { return (vec4u(key) >= at.firsts) & (vec4u(key) <= at.first + STEPS); }

fn queries_of(id: vec3u) -> Queries {
  let tiles = (dims.T + 3u) / 4u;
  let width = dims.H * CHUNKS;
  let h = id.x % dims.H;
  let first = 4u * (tiles - 1u - id.y); // the longest walks start first
  let last = dims.T - 1u;
  let sample_row = (id.x / dims.H) * dims.T;
  return Queries(
    id.x,
    first,
    last,
    sample_row,
    width,
    width + 2u * dims.K * CHUNKS,
    h * CHUNKS,
    width + h / (dims.H / dims.K) * CHUNKS,
    dims.scale,
    firsts_of(sample_row + min(first + STEPS, vec4u(last))),
  );
}
// For software adapters, where loads are what costs: an invocation keeps its four queries' slices of q and dy in private
// memory and walks over the keys one at a time, loading each once for the score and the sum. A vec4f of scores has an
// entry for each query.
var<private> q: array<Tile, SLICE>; // and dq at the end
var<private> g: array<Tile, SLICE>; // dy

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  if (!has_queries(id)) { return; }
  let at = queries_of(id);
  let slice = first_chunk(id.z);

  var d = vec4f(0);
  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = at.sample_row + min(at.first + i % 4u, at.last);
    let lane = at.head_lane + i / 4u;
    let dy_lane = load_dy_BTHD(row * at.width + lane);
    d += select(vec4f(0), vec4f(total(dy_lane * load_y_BTHD(row * at.width + lane))), STEPS == vec4u(i % 4u));
    let c = i / 4u - slice;
    if (c < SLICE) {
      q[c][i % 4u] = load_qkv_BTED(row * at.row_lanes + lane);
      g[c][i % 4u] = dy_lane;
    }
  }
  let rows = at.head * dims.T + min(at.first + STEPS, vec4u(at.last));
  let l = vec4f(load_lse_BHT(rows.x), load_lse_BHT(rows.y), load_lse_BHT(rows.z), load_lse_BHT(rows.w));
  if (slice == 0u) {
    for (var i = 0u; i < 4u; i++) {
      if (at.first + i < dims.T) { store_delta_BHT(at.head * dims.T + at.first + i, d[i]); }
    }
  }
  var dq0 = Tile(); var dq1 = Tile(); var dq2 = Tile(); var dq3 = Tile();
  var dq4 = Tile(); var dq5 = Tile(); var dq6 = Tile(); var dq7 = Tile();

  for (var key = at.firsts.x; key <= min(at.first + 3u, at.last); key++) {
    let k_row = (at.sample_row + key) * at.row_lanes + at.k_lane;
    let v_row = k_row + dims.K * CHUNKS;
    let k0 = qkv_lane(k_row, slice);
    let k1 = qkv_lane(k_row, slice + 1u);
    let k2 = qkv_lane(k_row, slice + 2u);
    let k3 = qkv_lane(k_row, slice + 3u);
    var s = k0 * q[0] + k1 * q[1] + k2 * q[2] + k3 * q[3];
    var dp = qkv_lane(v_row, slice) * g[0] + qkv_lane(v_row, slice + 1u) * g[1];
    dp += qkv_lane(v_row, slice + 2u) * g[2] + qkv_lane(v_row, slice + 3u) * g[3];
    var k4 = Lane(); var k5 = Lane(); var k6 = Lane(); var k7 = Lane();
    if (SLICE > 4u) {
      k4 = qkv_lane(k_row, slice + 4u);
      k5 = qkv_lane(k_row, slice + 5u);
      k6 = qkv_lane(k_row, slice + 6u);
      k7 = qkv_lane(k_row, slice + 7u);
      s += k4 * q[C4] + k5 * q[C5] + k6 * q[C6] + k7 * q[C7];
      dp += qkv_lane(v_row, slice + 4u) * g[C4] + qkv_lane(v_row, slice + 5u) * g[C5];
      dp += qkv_lane(v_row, slice + 6u) * g[C6] + qkv_lane(v_row, slice + 7u) * g[C7];
    }
    if (CHUNKS > SLICE) {
      let steps = at.sample_row + min(at.first + STEPS, vec4u(at.last));
      for (var c = 0u; c < CHUNKS; c++) {
        if (c < slice || c >= slice + SLICE) {
          s += load_qkv_BTED(k_row + c) * qkv_tile(steps * at.row_lanes + at.head_lane, c);
          dp += load_qkv_BTED(v_row + c) * dy_tile(steps * at.width + at.head_lane, c);
        }
      }
    }
    let p = select(vec4f(0), exp(s * at.scale - l), seen_by(at, key));
    let ds = p * (dp - d) * at.scale;
    dq0 += outer(k0, ds); dq1 += outer(k1, ds); dq2 += outer(k2, ds); dq3 += outer(k3, ds);
    if (SLICE > 4u) {
      dq4 += outer(k4, ds); dq5 += outer(k5, ds); dq6 += outer(k6, ds); dq7 += outer(k7, ds);
    }
  }

  q[0] = dq0; q[1] = dq1; q[2] = dq2; q[3] = dq3;
  if (SLICE > 4u) { q[C4] = dq4; q[C5] = dq5; q[C6] = dq6; q[C7] = dq7; }
  for (var i = 0u; i < 4u * min(SLICE, CHUNKS - slice); i++) {
    let row = at.first + i % 4u;
    let lane = at.head_lane + slice + i / 4u;
    if (row < dims.T) { store_dqkv_BTED((at.sample_row + row) * at.row_lanes + lane, q[i / 4u][i % 4u]); }
  }
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
