// For software adapters: one invocation writes a row's gradients.
fn write_gradients(n: u32, softmax: Softmax, lane: u32) {
  let chunks = dims.V / WIDTH;
  let target_id = load_targets_N(n);
  for (var v = 0u; v < chunks; v++) {
    let i = n * chunks + v;
    store_logits_NV(i, gradient_of(load_logits_NV(i), v, target_id, softmax));
  }
}
