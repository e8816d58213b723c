// y = (x − mean)·r·weight + bias with r = 1/√(variance + epsilon), row by row; stat keeps (mean, r) for the backward.
// The variance is summed from x − mean in a second pass: E[x²] − mean² would lose half the digits.

// Each of these walks over lanes `lane`, lane + TEAM, … of row n.
fn sum_of(n: u32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) { sum += load_x_NC(n * chunks + c); }
  return total(sum);
}
fn squares_of(n: u32, mean: f32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) {
    let centred = load_x_NC(n * chunks + c) - mean;
    sum += centred * centred;
  }
  return total(sum);
}
fn write_row(n: u32, mean: f32, variance: f32, lane: u32) {
  let chunks = dims.C / WIDTH;
  let r = 1.0 / sqrt(variance + dims.epsilon);
  for (var c = lane; c < chunks; c += TEAM) {
    store_y_NC(n * chunks + c, (load_x_NC(n * chunks + c) - mean) * r * load_weight_C(c) + load_bias_C(c));
  }
  if (lane == 0u) { store_stat_N2(n, vec2f(mean, r)); }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let mean = team_total(lane, sum_of(n, lane)) / f32(dims.C);
  write_row(n, mean, team_total(lane, squares_of(n, mean, lane)) / f32(dims.C), lane);
}
