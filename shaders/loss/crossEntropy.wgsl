// Softmax cross-entropy of each row, with its gradient written over the logits:
//   loss[n] = log Σ_v exp(logits[n][v]) − logits[n][target],   logits[n] ← (softmax(logits[n]) − onehot(target))·scale.
// The row's maximum is taken off before every exp, so no exp overflows and the sum is at least 1.
// WGSL allows log(1) to be 2^-21 below 0; a loss is not, and one that is not a number stays so.
struct Softmax { most: f32, sum: f32 }

// The logit of the row's target, from whichever invocation reads its lane; 0 from the others.
fn correct_of(n: u32, lane: u32) -> f32 {
  let target_id = load_targets_N(n);
  let v = target_id / WIDTH;
  if (v % TEAM != lane) { return 0.0; }
  return total(load_logits_NV(n * (dims.V / WIDTH) + v) * one_hot(v * WIDTH, target_id));
}
fn gradient_of(logit: Lane, v: u32, target_id: u32, softmax: Softmax) -> Lane {
  return (exp(logit - softmax.most) / softmax.sum - one_hot(v * WIDTH, target_id)) * dims.scale;
}

fn row(n: u32, lane: u32) {
  if (n >= dims.N) { return; }
  let softmax = softmax_of(n, lane);
  let correct = team_total(lane, correct_of(n, lane));
  let rest = log(softmax.sum);
  if (lane == 0u) { store_loss_N(n, select(rest, 0.0, rest < 0.0) + (softmax.most - correct)); }
  write_gradients(n, softmax, lane);
}
