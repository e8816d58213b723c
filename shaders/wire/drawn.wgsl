// Levels are rounded up as often as they lie near the upper one: drawn by the key and the place, the same everywhere.
fn rounding_at(i: u32) -> f32 { return f32(mixed(i ^ load_key(0u)) >> 8u) * 0x1p-24; }
