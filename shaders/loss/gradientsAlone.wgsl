// For software adapters: one invocation writes a row's gradients.
fn write_gradients(n: u32, most: f32, slope: f32, lane: u32) {
  let chunks = dims.V / WIDTH;
  for (var v = 0u; v < chunks; v++) {
    let i = n * chunks + v;
    store_logits_NV(i, gradient_of(load_logits_NV(i), most, slope));
  }
}
