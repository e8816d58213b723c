// collectPart for {first:96,width:32,column:4,rank:4,R:8,scale:2}
struct Dims { first: u32, width: u32, column: u32, rank: u32, R: u32, scale: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> dw_QR: array<vec4f>;
fn load_dw_QR(i: u32) -> vec4f { return dw_QR[i]; }
@group(0) @binding(1) var<storage, read_write> db_WR: array<vec4f>;
fn load_db_WR(i: u32) -> vec4f { return db_WR[i]; }
fn store_db_WR(i: u32, value: vec4f) { db_WR[i] = value; }
// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
fn lane_element(x: Lane, i: u32) -> f32 { return x[i]; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return select(x, vec4f(value), vec4u(0, 1, 2, 3) == vec4u(i)); }
// One invocation for each lane of db_WR.

fn item(index: u32) {
  let chunks = dims.rank / WIDTH;
  let row = index / chunks;
  if (row >= dims.width) { return; }
  let i = ((dims.first + row) * dims.R + dims.column) / WIDTH + index % chunks;
  store_db_WR(index, load_db_WR(index) + dims.scale * load_dw_QR(i));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
