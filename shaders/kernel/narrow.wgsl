// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
// 1 where the lane that starts at element `first` holds element `index`.
fn one_hot(first: u32, index: u32) -> Lane { return select(0.0, 1.0, first == index); }
