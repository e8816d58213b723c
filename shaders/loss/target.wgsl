// The target apart from the others. Where it is nearly certain, 1 − probability has no digits left, so its loss and its
// gradient are made of the others alone: while a row is walked, the target's logit is as low as floats go and adds 0.
const LOWEST = -3.4e38;
// Of a row that does not count.
const NO_TARGET = 0xffffffffu;
// Of the others: the largest logit and Σ exp(logit − most).
struct Softmax { most: f32, sum: f32 }
// Σ of the others' powers and the target's own, with the largest logit of all taken off: no exp overflows, one is 1.
struct Powers { most: f32, others: f32, own: f32 }

// Each lane of a row belongs to one invocation, which alone reads and writes it.
fn has_target(n: u32, lane: u32) -> bool { return load_targets_N(n) / WIDTH % TEAM == lane; }
// By the invocation that has it.
fn write_target(n: u32, value: f32) {
  let target_id = load_targets_N(n);
  let i = n * (dims.V / WIDTH) + target_id / WIDTH;
  store_logits_NV(i, lane_replaced(load_logits_NV(i), target_id % WIDTH, value));
}
// The target's logit, which is taken out of its row; 0 for those who do not have it.
fn take_target(n: u32, lane: u32) -> f32 {
  if (!has_target(n, lane)) { return 0.0; }
  let target_id = load_targets_N(n);
  let correct = lane_element(load_logits_NV(n * (dims.V / WIDTH) + target_id / WIDTH), target_id % WIDTH);
  write_target(n, LOWEST);
  return correct;
}

fn powers_of(softmax: Softmax, correct: f32) -> Powers {
  let most = max(softmax.most, correct);
  return Powers(most, softmax.sum * exp(softmax.most - most), exp(correct - most));
}

// log Σ exp(logit) − correct; what is not a number stays so.
fn loss_of(powers: Powers, correct: f32) -> f32 {
  let behind = powers.most - correct;
  if (behind > 0.0) { return behind + log(powers.others + powers.own); }
  return behind + log_of_one_and(powers.others);
}
