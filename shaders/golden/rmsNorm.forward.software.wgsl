// rmsNorm.forward.software for {N:37,C:60,epsilon:0.000001,offset:0}
struct Dims { N: u32, C: u32, epsilon: f32, offset: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
@group(0) @binding(1) var<storage, read> weight_C: array<vec4f>;
fn load_weight_C(i: u32) -> vec4f { return weight_C[i]; }
@group(0) @binding(2) var<storage, read_write> y_NC: array<vec4f>;
fn load_y_NC(i: u32) -> vec4f { return y_NC[i]; }
fn store_y_NC(i: u32, value: vec4f) { y_NC[i] = value; }
@group(0) @binding(3) var<storage, read_write> stat_N: array<f32>;
fn load_stat_N(i: u32) -> f32 { return stat_N[i]; }
fn store_stat_N(i: u32, value: f32) { stat_N[i] = value; }
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
// y = x·r·(offset + weight) with r = 1/√(mean(x²) + epsilon), row by row; stat keeps r for the backward.

// Each of these walks over lanes `lane`, lane + TEAM, … of row n.
fn squares_of(n: u32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) { sum += load_x_NC(n * chunks + c) * load_x_NC(n * chunks + c); }
  return total(sum);
}
fn write_row(n: u32, squares: f32, lane: u32) {
  let chunks = dims.C / WIDTH;
  let r = 1.0 / sqrt(squares / f32(dims.C) + dims.epsilon);
  for (var c = lane; c < chunks; c += TEAM) {
    finish(n * chunks + c, load_x_NC(n * chunks + c) * r * (dims.offset + load_weight_C(c)));
  }
  if (lane == 0u) { store_stat_N(n, r); }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  write_row(n, team_total(lane, squares_of(n, lane)), lane);
}
fn finish(i: u32, value: Lane) { store_y_NC(i, value); }

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
