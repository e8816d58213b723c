// Levels are rounded to the nearest one, a tie to the upper one.
fn rounding_at(i: u32) -> f32 { return 0.5; }
