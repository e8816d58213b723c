// For software adapters: a row's largest logit and Σ exp(logit − largest), in two walks by one invocation. What
// each addition rounds off is taken into the next one (Kahan): small terms onto a sum of 1 all round alike.
fn softmax_of(n: u32, lane: u32) -> Softmax {
  let chunks = dims.V / WIDTH;
  var most = Lane() - 3.4e38;
  for (var v = 0u; v < chunks; v++) { most = max(most, load_logits_NV(n * chunks + v)); }
  let row_most = largest(most);
  var sum = Lane();
  var excess = Lane();
  for (var v = 0u; v < chunks; v++) {
    let term = exp(load_logits_NV(n * chunks + v) - row_most) - excess;
    let next = sum + term;
    excess = (next - sum) - term;
    sum = next;
  }
  return Softmax(row_most, total(sum));
}
