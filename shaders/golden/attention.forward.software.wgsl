// attention.forward.software for {B:1,T:1,H:1,K:1,D:1,scale:1}
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
// For software adapters, where loads are what costs, and heads of one slice: an invocation keeps its four queries in private
// memory and walks over the keys one at a time, loading each once for the score and the sum. A vec4f of scores has an entry
// for each query. (Wider heads: attentionForwardSlices.wgsl.)
var<private> kept: array<Tile, SLICE>; // q, and y at the end

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  if (!has_queries(id)) { return; }
  let at = queries_of(id);

  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = (at.sample_row + min(at.first + i % 4u, at.last)) * at.row_lanes + at.head_lane;
    kept[i / 4u][i % 4u] = load_qkv_BTED(row + i / 4u);
  }
  var y0 = Tile(); var y1 = Tile(); var y2 = Tile(); var y3 = Tile();
  var y4 = Tile(); var y5 = Tile(); var y6 = Tile(); var y7 = Tile();
  var most = vec4f(HIDDEN); // of each query: largest score so far, and the sum of exp(score − largest)
  var sum = vec4f(0);

  for (var key = at.firsts.x; key <= min(at.first + 3u, at.last); key++) {
    let k_row = (at.sample_row + key) * at.row_lanes + at.k_lane;
    let v_row = k_row + dims.K * CHUNKS;
    var s = qkv_lane(k_row, 0u) * kept[0] + qkv_lane(k_row, 1u) * kept[1];
    s += qkv_lane(k_row, 2u) * kept[2] + qkv_lane(k_row, 3u) * kept[3];
    if (SLICE > 4u) {
      s += qkv_lane(k_row, 4u) * kept[C4] + qkv_lane(k_row, 5u) * kept[C5];
      s += qkv_lane(k_row, 6u) * kept[C6] + qkv_lane(k_row, 7u) * kept[C7];
    }
    s = select(vec4f(HIDDEN), s * at.scale, seen_by(at, key));
    let most_new = max(most, s);
    let p = exp(s - most_new);
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + p;
    y0 = scale_columns(y0, shrink) + outer(qkv_lane(v_row, 0u), p);
    y1 = scale_columns(y1, shrink) + outer(qkv_lane(v_row, 1u), p);
    y2 = scale_columns(y2, shrink) + outer(qkv_lane(v_row, 2u), p);
    y3 = scale_columns(y3, shrink) + outer(qkv_lane(v_row, 3u), p);
    if (SLICE > 4u) {
      y4 = scale_columns(y4, shrink) + outer(qkv_lane(v_row, 4u), p);
      y5 = scale_columns(y5, shrink) + outer(qkv_lane(v_row, 5u), p);
      y6 = scale_columns(y6, shrink) + outer(qkv_lane(v_row, 6u), p);
      y7 = scale_columns(y7, shrink) + outer(qkv_lane(v_row, 7u), p);
    }
  }

  let share = 1.0 / sum;
  kept[0] = scale_columns(y0, share); kept[1] = scale_columns(y1, share);
  kept[2] = scale_columns(y2, share); kept[3] = scale_columns(y3, share);
  if (SLICE > 4u) {
    kept[C4] = scale_columns(y4, share); kept[C5] = scale_columns(y5, share);
    kept[C6] = scale_columns(y6, share); kept[C7] = scale_columns(y7, share);
  }
  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = at.first + i % 4u;
    if (row < dims.T) { store_y_BTHD((at.sample_row + row) * at.width + at.head_lane + i / 4u, kept[i / 4u][i % 4u]); }
  }
  let value = most + log(sum);
  for (var i = 0u; i < 4u; i++) {
    if (at.first + i < dims.T) { store_lse_BHT(at.head * dims.T + at.first + i, value[i]); }
  }
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
