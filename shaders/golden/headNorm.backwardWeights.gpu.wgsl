// headNorm.backwardWeights.gpu for {N:37,H:4,K:2,C:40}
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
const COLUMNS = 4u;
const SHARES = 64u;
// Sums down the columns of [N][C] by one workgroup for COLUMNS lanes of the row, in a fixed order: the rows are dealt to
// its SHARES, whose sums are then added in runs, and the runs' in order. The kernel says what a column's sum is: `Sum`
// (zero when made), `term_of` lane c of one row, `plus`, and `add_to` for what the sums are added to.
// A row of weights makes few workgroups, so each invocation has four rows under way.
const RUNS = 8u;
var<workgroup> shares: array<Sum, COLUMNS * SHARES>;

fn run(group: vec3u, groups: vec3u, local: u32) {
  let column = local % COLUMNS;
  let share = local / COLUMNS;
  let c = group.x * COLUMNS + column;
  let inside = c < dims.C / WIDTH;
  if (inside) { shares[local] = four_sums_of(c, share); }
  workgroupBarrier();
  var sum = Sum();
  if (share < RUNS) {
    for (var other = share; other < SHARES; other += RUNS) { sum = plus(sum, shares[other * COLUMNS + column]); }
    shares[local] = sum; // which no other invocation has read
  }
  workgroupBarrier();
  if (!inside || share != 0u) { return; }
  for (var run = 1u; run < RUNS; run++) { sum = plus(sum, shares[run * COLUMNS + column]); }
  add_to(c, sum);
}

fn four_sums_of(c: u32, first: u32) -> Sum {
  var sum0 = Sum(); var sum1 = Sum(); var sum2 = Sum(); var sum3 = Sum();
  var n = first;
  for (; n + 3u * SHARES < dims.N; n += 4u * SHARES) {
    sum0 = plus(sum0, term_of(c, n));
    sum1 = plus(sum1, term_of(c, n + SHARES));
    sum2 = plus(sum2, term_of(c, n + 2u * SHARES));
    sum3 = plus(sum3, term_of(c, n + 3u * SHARES));
  }
  for (; n < dims.N; n += SHARES) { sum0 = plus(sum0, term_of(c, n)); }
  return plus(plus(sum0, sum1), plus(sum2, sum3));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
