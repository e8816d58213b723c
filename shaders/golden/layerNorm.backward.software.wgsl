// layerNorm.backward.software for {N:37,C:60,accumulate:0}
struct Dims { N: u32, C: u32, accumulate: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
@group(0) @binding(1) var<storage, read> stat_N2: array<vec2f>;
fn load_stat_N2(i: u32) -> vec2f { return stat_N2[i]; }
@group(0) @binding(2) var<storage, read> weight_C: array<vec4f>;
fn load_weight_C(i: u32) -> vec4f { return weight_C[i]; }
@group(0) @binding(3) var<storage, read> dy_NC: array<vec4f>;
fn load_dy_NC(i: u32) -> vec4f { return dy_NC[i]; }
@group(0) @binding(4) var<storage, read_write> dx_NC: array<vec4f>;
fn load_dx_NC(i: u32) -> vec4f { return dx_NC[i]; }
fn store_dx_NC(i: u32, value: vec4f) { dx_NC[i] = value; }
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
// Gradient of a row's input. With x̂ = (x − mean)·r and g = dy·weight:
//   dx = r·(g − mean(g) − x̂·mean(g·x̂)),   set or added to what dx holds.

// (Σ g, Σ g·x̂) over lanes `lane`, lane + TEAM, … of row n.
fn sums_of(n: u32, lane: u32) -> vec2f {
  let chunks = dims.C / WIDTH;
  let s = load_stat_N2(n);
  var g_sum = Lane();
  var gx_sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) {
    let g = load_dy_NC(n * chunks + c) * load_weight_C(c);
    g_sum += g;
    gx_sum += g * ((load_x_NC(n * chunks + c) - s.x) * s.y);
  }
  return vec2f(total(g_sum), total(gx_sum));
}
fn write_row(n: u32, means: vec2f, lane: u32) {
  let chunks = dims.C / WIDTH;
  let s = load_stat_N2(n);
  for (var c = lane; c < chunks; c += TEAM) {
    let i = n * chunks + c;
    var value = s.y * (load_dy_NC(i) * load_weight_C(c) - means.x - (load_x_NC(i) - s.x) * s.y * means.y);
    if (dims.accumulate != 0u) { value += load_dx_NC(i); }
    store_dx_NC(i, value);
  }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let sums = sums_of(n, lane);
  let means = vec2f(team_total(lane, sums.x), team_total(lane, sums.y)) / f32(dims.C);
  write_row(n, means, lane);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
