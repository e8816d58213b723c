// answer.attention.software for {N:3,H:6,K:2,D:20,P:16,T:208,W:208,scale:0.25,R:208,L:13}
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
const HEADS = 4u;
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
// For software adapters: one invocation has one head of one row, its query and its sum in private memory.
var<private> q: array<Lane, CHUNKS>;
var<private> y: array<Lane, CHUNKS>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let index = group.x * HEADS + local;
  if (index >= dims.N * dims.H) { return; }
  let n = index / dims.H;
  let h = index % dims.H;
  let first = load_seen_N2(2u * n);
  let seen = load_seen_N2(2u * n + 1u);
  for (var c = 0u; c < CHUNKS; c++) {
    q[c] = load_qkv_NED(query_lane(n, h) + c) * dims.scale;
    y[c] = Lane();
  }
  var most = HIDDEN;
  var sum = 0.0;
  for (var j = first_seen(seen); j < seen; j++) {
    let k = key_place(first, j) + key_lane(h);
    let v = k + dims.K * CHUNKS;
    var dot = Lane();
    for (var c = 0u; c < CHUNKS; c++) { dot += q[c] * load_cache_RFD(k + c); }
    let s = total(dot);
    let most_new = max(most, s);
    let p = exp(s - most_new);
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + p;
    for (var c = 0u; c < CHUNKS; c++) { y[c] = y[c] * shrink + p * load_cache_RFD(v + c); }
  }
  for (var c = 0u; c < CHUNKS; c++) { store_y_NHD(index * CHUNKS + c, y[c] / sum); }
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
