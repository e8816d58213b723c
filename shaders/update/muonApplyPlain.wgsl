// Muon where the values themselves are what is computed with.
fn leave(inside: u32, value: f32) {}
