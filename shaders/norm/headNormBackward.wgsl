// Gradient of a head's input. With x̂ = x·r and g = dy·(offset + weight):
//   dx = r·(g − x̂·mean(g·x̂));   that of a head of values is dy.

fn g_of(i: u32, weight: u32) -> Lane { return load_dy_NED(i) * (dims.offset + load_weight_2D(weight)); }

fn sum_of(first: u32, weight: u32, r: f32, lane: u32) -> f32 {
  var sum = Lane();
  for (var c = lane; c < dims.D / WIDTH; c += TEAM) { sum += g_of(first + c, weight + c) * (load_x_NED(first + c) * r); }
  return total(sum);
}

fn row(n: u32, lane: u32) {
  let heads = dims.H + 2u * dims.K;
  if (n >= dims.N * heads) { return; }
  let chunks = dims.D / WIDTH;
  let first = n * chunks;
  let head = n % heads;
  if (head >= dims.H + dims.K) {
    for (var c = lane; c < chunks; c += TEAM) { store_dx_NED(first + c, load_dy_NED(first + c)); }
    return;
  }
  let r = load_stat_NG(n / heads * (dims.H + dims.K) + head);
  let weight = select(0u, chunks, head >= dims.H);
  let mean = team_total(lane, sum_of(first, weight, r, lane)) / f32(dims.D);
  for (var c = lane; c < chunks; c += TEAM) {
    store_dx_NED(first + c, r * (g_of(first + c, weight + c) - load_x_NED(first + c) * r * mean));
  }
}
