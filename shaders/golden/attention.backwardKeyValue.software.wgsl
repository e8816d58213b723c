// attention.backwardKeyValue.software for {B:1,T:1,H:1,K:1,D:1,scale:1}
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
// For software adapters, where loads are what costs: an invocation keeps its four rows' slices of k and v in private
// memory and walks over the queries one at a time, loading each once for the score and the sums. A vec4f of scores has
// an entry for each key.
var<private> k: array<Tile, SLICE>; // and dk at the end
var<private> v: array<Tile, SLICE>; // and dv at the end

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  let key_head = id.x % dims.K; // id.x is b·K + key head
  let b = id.x / dims.K;
  if (b >= dims.B || id.y >= (dims.T + 3u) / 4u) { return; }
  let key = 4u * id.y; // the longest walks start first
  let slice = first_chunk(id.z);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let group_size = dims.H / dims.K;
  let sample_row = b * dims.T;
  let last = dims.T - 1u;
  let lanes = min(SLICE, CHUNKS - slice);
  let k_lane = width + key_head * CHUNKS;
  let v_lane = k_lane + dims.K * CHUNKS;
  let scale = dims.scale;

  for (var i = 0u; i < 4u * lanes; i++) {
    let row = (sample_row + min(key + i % 4u, last)) * row_lanes + slice + i / 4u;
    k[i / 4u][i % 4u] = load_qkv_BTED(row + k_lane);
    v[i / 4u][i % 4u] = load_qkv_BTED(row + v_lane);
  }
  var dk0 = Tile(); var dk1 = Tile(); var dk2 = Tile(); var dk3 = Tile();
  var dk4 = Tile(); var dk5 = Tile(); var dk6 = Tile(); var dk7 = Tile();
  var dv0 = Tile(); var dv1 = Tile(); var dv2 = Tile(); var dv3 = Tile();
  var dv4 = Tile(); var dv5 = Tile(); var dv6 = Tile(); var dv7 = Tile();

  for (var h = key_head * group_size; h < (key_head + 1u) * group_size; h++) {
    let head = b * dims.H + h;
    let head_lane = h * CHUNKS;
    for (var query = key; query < dims.T; query++) {
      let first_key = load_first_BT(sample_row + query);
      if (first_key > key + 3u) { break; } // no later query sees an earlier key
      let q_row = (sample_row + query) * row_lanes + head_lane;
      let y_row = (sample_row + query) * width + head_lane;
      let q0 = qkv_lane(q_row, slice); let g0 = dy_lane(y_row, slice);
      let q1 = qkv_lane(q_row, slice + 1u); let g1 = dy_lane(y_row, slice + 1u);
      let q2 = qkv_lane(q_row, slice + 2u); let g2 = dy_lane(y_row, slice + 2u);
      let q3 = qkv_lane(q_row, slice + 3u); let g3 = dy_lane(y_row, slice + 3u);
      var s = q0 * k[0] + q1 * k[1] + q2 * k[2] + q3 * k[3];
      var dp = g0 * v[0] + g1 * v[1] + g2 * v[2] + g3 * v[3];
      var q4 = Lane(); var q5 = Lane(); var q6 = Lane(); var q7 = Lane();
      var g4 = Lane(); var g5 = Lane(); var g6 = Lane(); var g7 = Lane();
      if (SLICE > 4u) {
        q4 = qkv_lane(q_row, slice + 4u); g4 = dy_lane(y_row, slice + 4u);
        q5 = qkv_lane(q_row, slice + 5u); g5 = dy_lane(y_row, slice + 5u);
        q6 = qkv_lane(q_row, slice + 6u); g6 = dy_lane(y_row, slice + 6u);
        q7 = qkv_lane(q_row, slice + 7u); g7 = dy_lane(y_row, slice + 7u);
        s += q4 * k[C4] + q5 * k[C5] + q6 * k[C6] + q7 * k[C7];
        dp += g4 * v[C4] + g5 * v[C5] + g6 * v[C6] + g7 * v[C7];
      }
      if (CHUNKS > SLICE) {
        let own = (sample_row + min(key + STEPS, vec4u(last))) * row_lanes;
        for (var c = 0u; c < CHUNKS; c++) {
          if (c < slice || c >= slice + SLICE) {
            s += load_qkv_BTED(q_row + c) * qkv_tile(own + k_lane, c);
            dp += load_dy_BTHD(y_row + c) * qkv_tile(own + v_lane, c);
          }
        }
      }
      let is_seen = (key + STEPS >= vec4u(first_key)) & (key + STEPS <= vec4u(query));
      let p = select(vec4f(0), exp(s * scale - load_lse_BHT(head * dims.T + query)), is_seen);
      let ds = p * (dp - load_delta_BHT(head * dims.T + query)) * scale;
      dk0 += outer(q0, ds); dv0 += outer(g0, p);
      dk1 += outer(q1, ds); dv1 += outer(g1, p);
      dk2 += outer(q2, ds); dv2 += outer(g2, p);
      dk3 += outer(q3, ds); dv3 += outer(g3, p);
      if (SLICE > 4u) {
        dk4 += outer(q4, ds); dv4 += outer(g4, p);
        dk5 += outer(q5, ds); dv5 += outer(g5, p);
        dk6 += outer(q6, ds); dv6 += outer(g6, p);
        dk7 += outer(q7, ds); dv7 += outer(g7, p);
      }
    }
  }

  k[0] = dk0; k[1] = dk1; k[2] = dk2; k[3] = dk3;
  v[0] = dv0; v[1] = dv1; v[2] = dv2; v[3] = dv3;
  if (SLICE > 4u) {
    k[C4] = dk4; k[C5] = dk5; k[C6] = dk6; k[C7] = dk7;
    v[C4] = dv4; v[C5] = dv5; v[C6] = dv6; v[C7] = dv7;
  }
  for (var i = 0u; i < 4u * lanes; i++) {
    let row = (sample_row + key + i % 4u) * row_lanes + slice + i / 4u;
    if (key + i % 4u < dims.T) {
      store_dqkv_BTED(row + k_lane, k[i / 4u][i % 4u]);
      store_dqkv_BTED(row + v_lane, v[i / 4u][i % 4u]);
    }
  }
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
