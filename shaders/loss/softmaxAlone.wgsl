// For software adapters: a row's largest logit and Σ exp(logit − largest), in two walks by one invocation.
fn softmax_of(n: u32, lane: u32) -> Softmax {
  let chunks = dims.V / WIDTH;
  var most = Lane() - 3.4e38;
  for (var v = 0u; v < chunks; v++) { most = max(most, load_logits_NV(n * chunks + v)); }
  let row_most = largest(most);
  var sum = Lane();
  for (var v = 0u; v < chunks; v++) { sum += exp(load_logits_NV(n * chunks + v) - row_most); }
  return Softmax(row_most, total(sum));
}
