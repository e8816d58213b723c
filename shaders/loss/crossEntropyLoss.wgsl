// Softmax cross-entropy of each row without a gradient, for evaluation:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target], the row's maximum taken off before every exp.
// WGSL allows log(1) to be 2^-21 below 0; a loss is not, and one that is not a number stays so.
struct Softmax { most: f32, sum: f32 }

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let softmax = softmax_of(n, lane);
  if (lane != 0u) { return; }
  let target_id = load_targets_N(n);
  let logits = load_logits_NV(n * (dims.V / WIDTH) + target_id / WIDTH);
  let correct = total(logits * one_hot(target_id / WIDTH * WIDTH, target_id));
  let rest = log(softmax.sum);
  store_loss_N(n, select(rest, 0.0, rest < 0.0) + (softmax.most - correct));
}
