// muon.start for {n:4096}
struct Dims { n: u32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> partials: array<f32>;
fn load_partials(i: u32) -> f32 { return partials[i]; }
@group(0) @binding(1) var<storage, read_write> x: array<vec4f>;
fn load_x(i: u32) -> vec4f { return x[i]; }
fn store_x(i: u32, value: vec4f) { x[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
const PARTIALS = 256u;
const LEAST_NORM = 1e-7;
// x ← x / max(‖x‖, LEAST_NORM), ‖x‖² as partial sums. Each invocation adds these up for itself, in runs of sixteen: the
// products that follow take many times as long.
fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  var squares = 0.0;
  for (var run = 0u; run < PARTIALS; run += 16u) {
    var sum = 0.0;
    for (var p = run; p < run + 16u; p++) { sum += load_partials(p); }
    squares += sum;
  }
  store_x(i, load_x(i) / max(sqrt(squares), LEAST_NORM));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
