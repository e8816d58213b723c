// For GPUs: the TEAM invocations of a workgroup write a row's gradients, with four loads at a time under way.
fn write_gradients(n: u32, most: f32, slope: f32, lane: u32) {
  let chunks = dims.V / WIDTH;
  let row = n * chunks;
  var v = lane;
  for (; v + 3u * TEAM < chunks; v += 4u * TEAM) {
    let a = load_logits_NV(row + v);
    let b = load_logits_NV(row + v + TEAM);
    let c = load_logits_NV(row + v + 2u * TEAM);
    let d = load_logits_NV(row + v + 3u * TEAM);
    store_logits_NV(row + v, gradient_of(a, most, slope));
    store_logits_NV(row + v + TEAM, gradient_of(b, most, slope));
    store_logits_NV(row + v + 2u * TEAM, gradient_of(c, most, slope));
    store_logits_NV(row + v + 3u * TEAM, gradient_of(d, most, slope));
  }
  for (; v < chunks; v += TEAM) {
    store_logits_NV(row + v, gradient_of(load_logits_NV(row + v), most, slope));
  }
}
