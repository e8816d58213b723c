// Packing with feedback, where four divides n: what earlier packings of this step left over is added first, and what
// this one leaves over is kept.

// Elements i to i + 3.
fn four_at(i: u32) -> vec4f { return load_x(i / 4u) + load_residual(i / 4u); }
fn leave(i: u32, four: vec4f, sent: vec4f) { store_residual(i / 4u, four - sent); }
