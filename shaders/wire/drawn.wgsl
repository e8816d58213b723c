// Levels are rounded up as often as they lie near the upper one: drawn by the key and the place, the same everywhere.
fn mixed(value: u32) -> u32 {
  let state = value * 747796405u + 2891336453u;
  let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}
fn rounding_at(i: u32) -> f32 { return f32(mixed(i ^ load_key(0u)) >> 8u) * 0x1p-24; }
