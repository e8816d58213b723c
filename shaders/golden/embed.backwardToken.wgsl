// embed.backwardToken for {N:74,C:60,V:50,F:0,R:50,scale:1}
struct Dims { N: u32, C: u32, F: u32, R: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> order_N: array<u32>;
fn load_order_N(i: u32) -> u32 { return order_N[i]; }
@group(0) @binding(1) var<storage, read> segments: array<u32>;
fn load_segments(i: u32) -> u32 { return segments[i]; }
@group(0) @binding(2) var<storage, read> dx_NC: array<vec4f>;
fn load_dx_NC(i: u32) -> vec4f { return dx_NC[i]; }
@group(0) @binding(3) var<storage, read_write> dtoken_VC: array<vec4f>;
fn load_dtoken_VC(i: u32) -> vec4f { return dtoken_VC[i]; }
fn store_dtoken_VC(i: u32, value: vec4f) { dtoken_VC[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// dtoken[id] += scale·Σ dx[n] over the rows n with that id, as sorted by sortTokens.ts. One invocation for each segment and
// lane of its row; segments past the count, and those of ids that are not among the R rows from F on, return at once, so the dispatch depends on N alone.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let segment = index / chunks;
  if (segment >= min(load_segments(0u), dims.N)) { return; }
  let chunk = index % chunks;
  let at = 1u + 3u * segment;
  let row = load_segments(at) - dims.F;
  if (row >= dims.R) { return; }
  let to = load_segments(at + 2u);
  var sum = Lane();
  for (var n = load_segments(at + 1u); n < to; n++) { sum += load_dx_NC(load_order_N(n) * chunks + chunk); }
  let i = row * chunks + chunk;
  store_dtoken_VC(i, load_dtoken_VC(i) + dims.scale * sum);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
