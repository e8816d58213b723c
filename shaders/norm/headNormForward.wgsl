// y = x·r·(offset + weight) with r = 1/√(mean(x²) + epsilon), head by head of queries and keys; values stay. stat keeps r.

fn squares_of(first: u32, lane: u32) -> f32 {
  var sum = Lane();
  for (var c = lane; c < dims.D / WIDTH; c += TEAM) { sum += load_x_NED(first + c) * load_x_NED(first + c); }
  return total(sum);
}

// Head n: of row n/E, in the order in which they lie.
fn row(n: u32, lane: u32) {
  let heads = dims.H + 2u * dims.K;
  if (n >= dims.N * heads) { return; }
  let chunks = dims.D / WIDTH;
  let first = n * chunks;
  let head = n % heads;
  if (head >= dims.H + dims.K) {
    for (var c = lane; c < chunks; c += TEAM) { store_y_NED(first + c, load_x_NED(first + c)); }
    return;
  }
  let squares = team_total(lane, squares_of(first, lane));
  let r = 1.0 / sqrt(squares / f32(dims.D) + dims.epsilon);
  let weight = select(0u, chunks, head >= dims.H);
  for (var c = lane; c < chunks; c += TEAM) {
    store_y_NED(first + c, load_x_NED(first + c) * r * (dims.offset + load_weight_2D(weight + c)));
  }
  if (lane == 0u) { store_stat_NG(n / heads * (dims.H + dims.K) + head, r); }
}
