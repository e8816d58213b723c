// Packing without feedback, where four divides n: what a code misses is lost.
struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> packed: array<u32>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Elements i to i + 3.
fn four_at(i: u32) -> vec4f { return x[i / 4u]; }
fn leave(i: u32, rest: vec4f) {}
