// sumSquares.software for {n:437760,accumulate:1}
struct Dims { n: u32, accumulate: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x[i]; }
@group(0) @binding(1) var<storage, read_write> partials: array<f32>;
fn load_partials(i: u32) -> f32 { return partials[i]; }
fn store_partials(i: u32, value: f32) { partials[i] = value; }
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
const PARTIALS = 256u;
const BLOCK = 256u;
// partials[p] = Σ x[i]² over the blocks of BLOCK elements whose number is p modulo PARTIALS. The caller adds the
// partials in float64. A float32 chain loses about √length·6e-8 of itself: a block is summed on its own before it joins
// the long sum, so a chain is at most BLOCK + n/(BLOCK·PARTIALS) long. For software adapters.
fn row(p: u32, lane: u32) {
  if (p >= PARTIALS) { return; }
  let chunks = dims.n / WIDTH;
  let block_chunks = BLOCK / WIDTH;
  var sum = Lane();
  for (var start = p * block_chunks; start < chunks; start += PARTIALS * block_chunks) {
    let end = min(start + block_chunks, chunks);
    var block = Lane();
    for (var i = start; i < end; i++) {
      let value = load_x(i);
      block += value * value;
    }
    sum += block;
  }
  store_partials(p, total(sum) + select(0.0, load_partials(p), dims.accumulate == 1u));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * 4u + local, 0u);
}

@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
