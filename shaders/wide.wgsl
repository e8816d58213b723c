// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;
// Invocations of a workgroup: in element-wise and shared entries, and where each walks along a whole row or column.
const GROUP = 64u;
const ROWS = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
// 1 where the lane that starts at element `first` holds element `index`.
fn one_hot(first: u32, index: u32) -> Lane {
  return select(vec4f(0), vec4f(1), vec4u(first) + vec4u(0, 1, 2, 3) == vec4u(index));
}

// Four lanes side by side: one column for each row of a tensor, one row for each element of a lane.
alias Tile = mat4x4f;
// scores[i][j] = a[j]·b[i]
fn scores(a: Tile, b: Tile) -> mat4x4f { return transpose(a) * b; }
// outer[i] = a·by[i]
fn outer(a: Lane, by: vec4f) -> Tile { return Tile(a * by.x, a * by.y, a * by.z, a * by.w); }
fn scale_columns(t: Tile, by: vec4f) -> Tile { return Tile(t[0] * by.x, t[1] * by.y, t[2] * by.z, t[3] * by.w); }
fn column_dots(a: Tile, b: Tile) -> vec4f {
  return vec4f(dot(a[0], b[0]), dot(a[1], b[1]), dot(a[2], b[2]), dot(a[3], b[3]));
}
