// Softmax cross-entropy of each row without a gradient, for evaluation:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target].
// The logits are afterwards what they were. A row without a target has a loss of 0.

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  if (load_targets_N(n) == NO_TARGET) {
    if (lane == 0u) { store_loss_N(n, 0.0); }
    return;
  }
  let correct = take_target(n, lane);
  let softmax = softmax_of(n, lane);
  if (!has_target(n, lane)) { return; }
  write_target(n, correct);
  store_loss_N(n, loss_of(powers_of(softmax, correct), correct));
}
