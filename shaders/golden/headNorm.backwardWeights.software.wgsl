// headNorm.backwardWeights.software for {N:37,H:4,K:2,C:40}
struct Dims { N: u32, H: u32, K: u32, C: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x_NED: array<vec4f>;
fn load_x_NED(i: u32) -> vec4f { return x_NED[i]; }
@group(0) @binding(1) var<storage, read> stat_NG: array<f32>;
fn load_stat_NG(i: u32) -> f32 { return stat_NG[i]; }
@group(0) @binding(2) var<storage, read> dy_NED: array<vec4f>;
fn load_dy_NED(i: u32) -> vec4f { return dy_NED[i]; }
@group(0) @binding(3) var<storage, read_write> dweight_2D: array<vec4f>;
fn load_dweight_2D(i: u32) -> vec4f { return dweight_2D[i]; }
fn store_dweight_2D(i: u32, value: vec4f) { dweight_2D[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// dweight[d] += Σ_n Σ_h dy·x·r over the heads of queries, then, for the second weight, over those of keys.

alias Sum = Lane;
fn term_of(c: u32, n: u32) -> Sum {
  let chunks = dims.C / 2u / WIDTH;
  let ofKeys = c >= chunks;
  let first = select(0u, dims.H, ofKeys);
  let end = select(dims.H, dims.H + dims.K, ofKeys);
  var sum = Lane();
  for (var head = first; head < end; head++) {
    let i = (n * (dims.H + 2u * dims.K) + head) * chunks + c % chunks;
    sum += load_dy_NED(i) * (load_x_NED(i) * load_stat_NG(n * (dims.H + dims.K) + head));
  }
  return sum;
}
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { store_dweight_2D(c, load_dweight_2D(c) + sum); }

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
