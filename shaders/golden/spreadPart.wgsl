// spreadPart for {first:64,rows:96,before:32,width:32,column:4,rank:4,R:8,scale:2}
struct Dims { first: u32, rows: u32, before: u32, width: u32, column: u32, rank: u32, R: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> b_WR: array<vec4f>;
fn load_b_WR(i: u32) -> vec4f { return b_WR[i]; }
@group(0) @binding(1) var<storage, read_write> w_QR: array<vec4f>;
fn load_w_QR(i: u32) -> vec4f { return w_QR[i]; }
fn store_w_QR(i: u32, value: vec4f) { w_QR[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// One invocation for each lane of the run's rows of w_QR.

fn item(index: u32) {
  let chunks = dims.R / WIDTH;
  let row = index / chunks;
  if (row >= dims.rows) { return; }
  let column = index % chunks * WIDTH;
  var value = Lane();
  if (row >= dims.before && row < dims.before + dims.width && column >= dims.column && column < dims.column + dims.rank) {
    value = dims.scale * load_b_WR(((row - dims.before) * dims.rank + column - dims.column) / WIDTH);
  }
  store_w_QR((dims.first + row) * chunks + column / WIDTH, value);
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
