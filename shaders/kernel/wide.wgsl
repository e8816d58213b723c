// A lane is four neighbouring floats. Twin of narrow.wgsl; a kernel is written for both (see lanes.ts).
alias Lane = vec4f;
const WIDTH = 4u;

fn total(x: Lane) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest(x: Lane) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }
// 1 where the lane that starts at element `first` holds element `index`.
fn one_hot(first: u32, index: u32) -> Lane {
  return select(vec4f(0), vec4f(1), vec4u(first) + vec4u(0, 1, 2, 3) == vec4u(index));
}
