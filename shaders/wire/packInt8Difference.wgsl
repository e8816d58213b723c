// Packing of what others lack of x, where four divides n: then they have `held` and what the codes stand for. A code times
// its scale is exact, so that the sum is the same bits wherever it is made.

// Elements i to i + 3.
fn four_at(i: u32) -> vec4f { return load_x(i / 4u) - load_held(i / 4u); }
fn leave(i: u32, four: vec4f, sent: vec4f) { store_held(i / 4u, load_held(i / 4u) + sent); }
