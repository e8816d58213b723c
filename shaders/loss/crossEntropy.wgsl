// Softmax cross-entropy of each row, with its gradient written over the logits:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target],   logits[n] ← (softmax(logits[n]) − onehot(target))·scale,
// of which the target's is −Σ of the others'. A row without a target has no loss, and leaves zeros.

// The gradient of one of the others. `slope`: scale / Σ.
fn gradient_of(logit: Lane, most: f32, slope: f32) -> Lane { return exp(logit - most) * slope; }

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  if (load_targets_N(n) == NO_TARGET) {
    let chunks = dims.V / WIDTH;
    for (var v = lane; v < chunks; v += TEAM) { store_logits_NV(n * chunks + v, Lane()); }
    if (lane == 0u) { store_loss_N(n, 0.0); }
    return;
  }
  let own = take_target(n, lane);
  let softmax = softmax_of(n, lane);
  let correct = team_total(lane, own);
  let powers = powers_of(softmax, correct);
  let slope = dims.scale / (powers.others + powers.own);
  write_gradients(n, powers.most, slope, lane);
  if (!has_target(n, lane)) { return; }
  write_target(n, -powers.others * slope);
  store_loss_N(n, loss_of(powers, correct));
}
