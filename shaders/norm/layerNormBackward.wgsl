// Gradient of a row's input. With x̂ = (x − mean)·r and g = dy·weight:
//   dx = r·(g − mean(g) − x̂·mean(g·x̂)),   set or added to what dx holds.

// (Σ g, Σ g·x̂) over lanes `lane`, lane + TEAM, … of row n.
fn sums_of(n: u32, lane: u32) -> vec2f {
  let chunks = dims.C / WIDTH;
  let s = load_stat_N2(n);
  var g_sum = Lane();
  var gx_sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) {
    let g = load_dy_NC(n * chunks + c) * load_weight_C(c);
    g_sum += g;
    gx_sum += g * ((load_x_NC(n * chunks + c) - s.x) * s.y);
  }
  return vec2f(total(g_sum), total(gx_sum));
}
fn write_row(n: u32, means: vec2f, lane: u32) {
  let chunks = dims.C / WIDTH;
  let s = load_stat_N2(n);
  for (var c = lane; c < chunks; c += TEAM) {
    let i = n * chunks + c;
    var value = s.y * (load_dy_NC(i) * load_weight_C(c) - means.x - (load_x_NC(i) - s.x) * s.y * means.y);
    if (dims.accumulate != 0u) { value += load_dx_NC(i); }
    store_dx_NC(i, value);
  }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let sums = sums_of(n, lane);
  let means = vec2f(team_total(lane, sums.x), team_total(lane, sums.y)) / f32(dims.C);
  write_row(n, means, lane);
}
