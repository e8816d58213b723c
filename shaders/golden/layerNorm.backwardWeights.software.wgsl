// layerNorm.backwardWeights.software for {N:259,C:60}
struct Dims { N: u32, C: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NC: array<vec4f>;
fn load_x_NC(i: u32) -> vec4f { return x_NC[i]; }
@group(0) @binding(1) var<storage, read> stat_N2: array<vec2f>;
fn load_stat_N2(i: u32) -> vec2f { return stat_N2[i]; }
@group(0) @binding(2) var<storage, read> dy_NC: array<vec4f>;
fn load_dy_NC(i: u32) -> vec4f { return dy_NC[i]; }
@group(0) @binding(3) var<storage, read_write> dweight_C: array<vec4f>;
fn load_dweight_C(i: u32) -> vec4f { return dweight_C[i]; }
fn store_dweight_C(i: u32, value: vec4f) { dweight_C[i] = value; }
@group(0) @binding(4) var<storage, read_write> dbias_C: array<vec4f>;
fn load_dbias_C(i: u32) -> vec4f { return dbias_C[i]; }
fn store_dbias_C(i: u32, value: vec4f) { dbias_C[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// dweight[c] += Σ_n dy[n][c]·x̂[n][c] and dbias[c] += Σ_n dy[n][c], with x̂ = (x − mean)·r.

struct Sum { weight: Lane, bias: Lane }
fn term_of(c: u32, n: u32) -> Sum {
  let i = n * (dims.C / WIDTH) + c;
  let s = load_stat_N2(n);
  let g = load_dy_NC(i);
  return Sum(g * ((load_x_NC(i) - s.x) * s.y), g);
}
fn plus(a: Sum, b: Sum) -> Sum { return Sum(a.weight + b.weight, a.bias + b.bias); }
fn add_to(c: u32, sum: Sum) {
  store_dweight_C(c, load_dweight_C(c) + sum.weight);
  store_dbias_C(c, load_dbias_C(c) + sum.bias);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let c = group.x * 4u + local;
  if (c >= dims.C / WIDTH) { return; }
  var sum = Sum();
  for (var n = 0u; n < dims.N; n++) { sum = plus(sum, term_of(c, n)); }
  add_to(c, sum);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
