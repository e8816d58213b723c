// headNorm.backward.software for {N:37,H:4,K:2,D:20,epsilon:0.000001,offset:0}
struct Dims { N: u32, H: u32, K: u32, D: u32, offset: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NED: array<vec4f>;
fn load_x_NED(i: u32) -> vec4f { return x_NED[i]; }
@group(0) @binding(1) var<storage, read> stat_NG: array<f32>;
fn load_stat_NG(i: u32) -> f32 { return stat_NG[i]; }
@group(0) @binding(2) var<storage, read> weight_2D: array<vec4f>;
fn load_weight_2D(i: u32) -> vec4f { return weight_2D[i]; }
@group(0) @binding(3) var<storage, read> dy_NED: array<vec4f>;
fn load_dy_NED(i: u32) -> vec4f { return dy_NED[i]; }
@group(0) @binding(4) var<storage, read_write> dx_NED: array<vec4f>;
fn load_dx_NED(i: u32) -> vec4f { return dx_NED[i]; }
fn store_dx_NED(i: u32, value: vec4f) { dx_NED[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// For software adapters, where one invocation has a whole row: the twin of team.wgsl.
const TEAM = 1u;
fn team_total(lane: u32, value: f32) -> f32 { return value; }
fn team_largest(lane: u32, value: f32) -> f32 { return value; }
// Gradient of a head's input. With x̂ = x·r and g = dy·(offset + weight):
//   dx = r·(g − x̂·mean(g·x̂));   that of a head of values is dy.

fn g_of(i: u32, weight: u32) -> Lane { return load_dy_NED(i) * (dims.offset + load_weight_2D(weight)); }

fn sum_of(first: u32, weight: u32, r: f32, lane: u32) -> f32 {
  var sum = Lane();
  for (var c = lane; c < dims.D / WIDTH; c += TEAM) { sum += g_of(first + c, weight + c) * (load_x_NED(first + c) * r); }
  return total(sum);
}

fn row(n: u32, lane: u32) {
  let heads = dims.H + 2u * dims.K;
  if (n >= dims.N * heads) { return; }
  let chunks = dims.D / WIDTH;
  let first = n * chunks;
  let head = n % heads;
  if (head >= dims.H + dims.K) {
    for (var c = lane; c < chunks; c += TEAM) { store_dx_NED(first + c, load_dy_NED(first + c)); }
    return;
  }
  let r = load_stat_NG(n / heads * (dims.H + dims.K) + head);
  let weight = select(0u, chunks, head >= dims.H);
  let mean = team_total(lane, sum_of(first, weight, r, lane)) / f32(dims.D);
  for (var c = lane; c < chunks; c += TEAM) {
    store_dx_NED(first + c, r * (g_of(first + c, weight + c) - load_x_NED(first + c) * r * mean));
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
