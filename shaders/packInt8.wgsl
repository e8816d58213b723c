// Without feedback: what a packing leaves over is lost.
struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
@group(1) @binding(0) var<uniform> dims: Dims;

fn value_at(i: u32) -> f32 { return x[i]; }
fn leave(i: u32, rest: f32) {}
