// Gradient of a row's input. With x̂ = x·r and g = dy·(offset + weight):
//   dx = r·(g − x̂·mean(g·x̂)),   set or added to what dx holds.

fn g_of(i: u32, c: u32) -> Lane { return load_dy_NC(i) * (dims.offset + load_weight_C(c)); }

// Σ g·x̂ over lanes `lane`, lane + TEAM, … of row n.
fn sum_of(n: u32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  let r = load_stat_N(n);
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) { sum += g_of(n * chunks + c, c) * (load_x_NC(n * chunks + c) * r); }
  return total(sum);
}
fn write_row(n: u32, sum: f32, lane: u32) {
  let chunks = dims.C / WIDTH;
  let r = load_stat_N(n);
  let mean = sum / f32(dims.C);
  for (var c = lane; c < chunks; c += TEAM) {
    let i = n * chunks + c;
    var value = r * (g_of(i, c) - load_x_NC(i) * r * mean);
    if (dims.accumulate != 0u) { value += load_dx_NC(i); }
    store_dx_NC(i, value);
  }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  write_row(n, team_total(lane, sum_of(n, lane)), lane);
}
