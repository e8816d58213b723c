// The token that a row's answer goes on with. Pass by pass over the logits, each invocation with every TEAM-th of them:
// the largest; with a nucleus the total and, bit by bit, the smallest logit in it; then the largest score.
const NONE = -3.4e38;

fn logit_of(n: u32, v: u32) -> f32 { return load_logits_NV(n * dims.V + v); }

// Words in the order of the floats.
fn order_of(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  return select(bits | 0x80000000u, ~bits, bits > 0x7fffffffu);
}

// Σ exp((logit − most)/temperature) of the logits from `least` on.
fn mass_of(n: u32, lane: u32, most: f32, sharpness: f32, least: u32) -> f32 {
  var sum = 0.0;
  for (var v = lane; v < dims.V; v += TEAM) {
    let logit = logit_of(n, v);
    sum += select(0.0, exp((logit - most) * sharpness), order_of(logit) >= least);
  }
  return team_total(lane, sum);
}

// The largest order from which on the logits have that much of the mass.
fn least_of_nucleus(n: u32, lane: u32, most: f32, sharpness: f32, top_p: f32) -> u32 {
  let wanted = top_p * mass_of(n, lane, most, sharpness, 0u);
  var least = 0u;
  for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {
    if (mass_of(n, lane, most, sharpness, least | bit) >= wanted) { least |= bit; }
  }
  return least;
}

// −log of an exponential variate: of a small word 1 − w has no digits left, so its logarithm is made from the word.
fn noise_of(key: u32, v: u32) -> f32 {
  let w = (f32(mixed(key ^ v)) + 0.5) * 0x1p-32;
  return -log(select(-log(1.0 - w), w * (1.0 + 0.5 * w), w < 0x1p-10));
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let temperature = bitcast<f32>(load_asked_N4(4u * n));
  let top_p = bitcast<f32>(load_asked_N4(4u * n + 1u));
  let key = mixed(load_asked_N4(4u * n + 2u) ^ mixed(load_asked_N4(4u * n + 3u)));
  let sharpness = select(1.0 / temperature, 1.0, temperature == 0.0);
  var own_most = NONE;
  for (var v = lane; v < dims.V; v += TEAM) { own_most = max(own_most, logit_of(n, v)); }
  let most = team_largest(lane, own_most);
  var least = 0u;
  if (temperature > 0.0 && top_p < 1.0) { least = least_of_nucleus(n, lane, most, sharpness, top_p); }
  var best = NONE;
  var token = 0u;
  for (var v = lane; v < dims.V; v += TEAM) {
    let logit = logit_of(n, v);
    if (order_of(logit) < least) { continue; }
    var score = (logit - most) * sharpness;
    if (temperature > 0.0) { score += noise_of(key, v); }
    if (score > best) { best = score; token = v; }
  }
  let score = team_largest(lane, best);
  let found = -team_largest(lane, select(NONE, -f32(token), best == score));
  if (lane == 0u) { store_token_N(n, u32(found)); }
}
