// y = x·r·(offset + weight) with r = 1/√(mean(x²) + epsilon), row by row; stat keeps r for the backward.

// Each of these walks over lanes `lane`, lane + TEAM, … of row n.
fn squares_of(n: u32, lane: u32) -> f32 {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var c = lane; c < chunks; c += TEAM) { sum += load_x_NC(n * chunks + c) * load_x_NC(n * chunks + c); }
  return total(sum);
}
fn write_row(n: u32, squares: f32, lane: u32) {
  let chunks = dims.C / WIDTH;
  let r = 1.0 / sqrt(squares / f32(dims.C) + dims.epsilon);
  for (var c = lane; c < chunks; c += TEAM) {
    finish(n * chunks + c, load_x_NC(n * chunks + c) * r * (dims.offset + load_weight_C(c)));
  }
  if (lane == 0u) { store_stat_N(n, r); }
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  write_row(n, team_total(lane, squares_of(n, lane)), lane);
}
