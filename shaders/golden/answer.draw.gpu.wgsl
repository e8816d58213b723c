// answer.draw.gpu for {N:1,V:1}
struct Dims { N: u32, V: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> logits_NV: array<f32>;
fn load_logits_NV(i: u32) -> f32 { return logits_NV[i]; }
@group(0) @binding(1) var<storage, read> asked_N4: array<u32>;
fn load_asked_N4(i: u32) -> u32 { return asked_N4[i]; }
@group(0) @binding(2) var<storage, read_write> token_N: array<u32>;
fn load_token_N(i: u32) -> u32 { return token_N[i]; }
fn store_token_N(i: u32, value: u32) { token_N[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const TEAM = 256u;
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
// A word in which every bit depends on each of `value`'s (PCG's output function); `mixed` in swarm/base.ts is its twin.
fn mixed(value: u32) -> u32 {
  let state = value * 747796405u + 2891336453u;
  let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}
// The token that a row's answer goes on with. Pass by pass over the logits, each invocation with every TEAM-th of them:
// the largest; with a nucleus the total and, bit by bit, the smallest logit in it; then the largest score.
const NONE = -3.4e38;

fn logit_of(n: u32, v: u32) -> f32 { return load_logits_NV(n * dims.V + v); }

// Words in the order of the floats.
fn order_of(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  return select(bits | 0x80000000u, ~bits, bits > 0x7fffffffu);
}

// Σ exp((logit − most)/temperature) of the logits from `least` on.
fn mass_of(n: u32, lane: u32, most: f32, sharpness: f32, least: u32) -> f32 {
  var sum = 0.0;
  for (var v = lane; v < dims.V; v += TEAM) {
    let logit = logit_of(n, v);
    sum += select(0.0, exp((logit - most) * sharpness), order_of(logit) >= least);
  }
  return team_total(lane, sum);
}

// The largest order from which on the logits have that much of the mass.
fn least_of_nucleus(n: u32, lane: u32, most: f32, sharpness: f32, top_p: f32) -> u32 {
  let wanted = top_p * mass_of(n, lane, most, sharpness, 0u);
  var least = 0u;
  for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
    if (mass_of(n, lane, most, sharpness, least | bit) >= wanted) { least |= bit; }
  }
  return least;
}

// −log of an exponential variate: of a small word 1 − w has no digits left, so its logarithm is made from the word.
fn noise_of(key: u32, v: u32) -> f32 {
  let w = (f32(mixed(key ^ v)) + 0.5) * 0x1p-32;
  return -log(select(-log(1.0 - w), w * (1.0 + 0.5 * w), w < 0x1p-10));
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let temperature = bitcast<f32>(load_asked_N4(4u * n));
  let top_p = bitcast<f32>(load_asked_N4(4u * n + 1u));
  let key = mixed(load_asked_N4(4u * n + 2u) ^ mixed(load_asked_N4(4u * n + 3u)));
  let sharpness = select(1.0 / temperature, 1.0, temperature == 0.0);
  var own_most = NONE;
  for (var v = lane; v < dims.V; v += TEAM) { own_most = max(own_most, logit_of(n, v)); }
  let most = team_largest(lane, own_most);
  var least = 0u;
  if (temperature > 0.0 && top_p < 1.0) { least = least_of_nucleus(n, lane, most, sharpness, top_p); }
  var best = NONE;
  var token = 0u;
  for (var v = lane; v < dims.V; v += TEAM) {
    let logit = logit_of(n, v);
    if (order_of(logit) < least) { continue; }
    var score = (logit - most) * sharpness;
    if (temperature > 0.0) { score += noise_of(key, v); }
    if (score > best) { best = score; token = v; }
  }
  let score = team_largest(lane, best);
  let found = -team_largest(lane, select(NONE, -f32(token), best == score));
  if (lane == 0u) { store_token_N(n, u32(found)); }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
