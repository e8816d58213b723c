// answer.attention.gpu for {N:3,H:6,K:2,D:20,P:16,T:208,W:208,scale:0.25,R:208,L:13}
struct Dims { N: u32, H: u32, K: u32, D: u32, P: u32, T: u32, W: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> qkv_NED: array<vec4f>;
fn load_qkv_NED(i: u32) -> vec4f { return qkv_NED[i]; }
@group(0) @binding(1) var<storage, read> cache_RFD: array<vec4f>;
fn load_cache_RFD(i: u32) -> vec4f { return cache_RFD[i]; }
@group(0) @binding(2) var<storage, read> pages_L: array<u32>;
fn load_pages_L(i: u32) -> u32 { return pages_L[i]; }
@group(0) @binding(3) var<storage, read> seen_N2: array<u32>;
fn load_seen_N2(i: u32) -> u32 { return seen_N2[i]; }
@group(0) @binding(4) var<storage, read_write> y_NHD: array<vec4f>;
fn load_y_NHD(i: u32) -> vec4f { return y_NHD[i]; }
fn store_y_NHD(i: u32, value: vec4f) { y_NHD[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
const CHUNKS = 5u;
const TEAM = 64u;
const SHARES = 12u;
const OWN = 1u;
// Reductions over the TEAM invocations of a workgroup, in a fixed order: runs first, then their results, which all
// invocations read. For GPUs only: on a software adapter every barrier switches stacks. Each call needs all invocations.
const RUNS = TEAM / 16u;
var<workgroup> shared_values: array<f32, TEAM>;
var<workgroup> shared_results: array<f32, RUNS>;

// Two barriers a call: the next call's first values are written after these have been read, its results after the first
// barrier of its own.
fn team_total(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  workgroupBarrier();
  if (lane < RUNS) {
    var run = 0.0;
    for (var i = lane; i < TEAM; i += RUNS) { run += shared_values[i]; }
    shared_results[lane] = run;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < RUNS; i++) { sum += shared_results[i]; }
  return sum;
}

fn team_largest(lane: u32, value: f32) -> f32 {
  shared_values[lane] = value;
  workgroupBarrier();
  if (lane < RUNS) {
    var run = shared_values[lane];
    for (var i = lane + RUNS; i < TEAM; i += RUNS) { run = max(run, shared_values[i]); }
    shared_results[lane] = run;
  }
  workgroupBarrier();
  var most = shared_results[0];
  for (var i = 1u; i < RUNS; i++) { most = max(most, shared_results[i]); }
  return most;
}
const HIDDEN = -3.4e38; // the score of a key that is not seen

// The first of the keys that a row sees: the last W of all.
fn first_seen(seen: u32) -> u32 { return seen - min(seen, dims.W); }

// Where key j of the list that begins at `first` lies in the cache, in lanes: the first head of its keys.
fn key_place(first: u32, j: u32) -> u32 {
  return (load_pages_L(first + j / dims.P) * dims.P + j % dims.P) * 2u * dims.K * CHUNKS;
}

// The lane of the keys that head h of the queries reads, in a row of the cache.
fn key_lane(h: u32) -> u32 { return h / (dims.H / dims.K) * CHUNKS; }
fn query_lane(n: u32, h: u32) -> u32 { return (n * (dims.H + 2u * dims.K) + h) * CHUNKS; }
// For GPUs: a workgroup has one head of one row. Each invocation takes the score of one of 64 keys; then SHARES invocations
// for each lane of the head add up the weighted values, each of every SHARES-th key.
var<workgroup> q: array<Lane, CHUNKS>;
var<workgroup> weights: array<f32, TEAM>;
var<workgroup> places: array<u32, TEAM>;
var<workgroup> sums: array<Lane, TEAM>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let n = group.y;
  let h = group.x;
  let first = load_seen_N2(2u * n);
  let seen = load_seen_N2(2u * n + 1u);
  for (var c = local; c < CHUNKS; c += TEAM) { q[c] = load_qkv_NED(query_lane(n, h) + c) * dims.scale; }
  workgroupBarrier();
  let lane = local % CHUNKS;
  let share = local / CHUNKS;
  var y: array<Lane, OWN>;
  var most = HIDDEN;
  var sum = 0.0;
  for (var start = first_seen(seen); start < seen; start += TEAM) {
    let count = min(seen - start, TEAM);
    var s = HIDDEN;
    if (local < count) {
      let k = key_place(first, start + local) + key_lane(h);
      places[local] = k + dims.K * CHUNKS;
      var dot = Lane();
      for (var c = 0u; c < CHUNKS; c++) { dot += q[c] * load_cache_RFD(k + c); }
      s = total(dot);
    }
    let most_new = max(most, team_largest(local, s));
    let p = select(0.0, exp(s - most_new), local < count);
    weights[local] = p;
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + team_total(local, p); // its barriers are those of weights and places, too
    for (var i = 0u; i < OWN; i++) {
      let c = lane + i * TEAM;
      var added = y[i] * shrink;
      if (c < CHUNKS && share < SHARES) {
        for (var j = share; j < count; j += SHARES) {
          added += weights[j] * load_cache_RFD(places[j] + c);
        }
      }
      y[i] = added;
    }
    workgroupBarrier();
  }
  if (CHUNKS > TEAM) {
    for (var i = 0u; i < OWN; i++) {
      let c = local + i * TEAM;
      if (c < CHUNKS) { store_y_NHD((n * dims.H + h) * CHUNKS + c, y[i] / sum); }
    }
    return;
  }
  sums[local] = y[0];
  workgroupBarrier();
  if (local >= CHUNKS) { return; }
  var whole = sums[local];
  for (var other = 1u; other < SHARES; other++) { whole += sums[local + other * CHUNKS]; }
  store_y_NHD((n * dims.H + h) * CHUNKS + local, whole / sum);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
