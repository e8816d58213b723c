// Packing in place, where four divides n: what the codes miss stays.

// Elements i to i + 3.
fn four_at(i: u32) -> vec4f { return load_x(i / 4u); }
fn leave(i: u32, four: vec4f, sent: vec4f) { store_x(i / 4u, four - sent); }
