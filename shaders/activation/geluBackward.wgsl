// dx = dx·gelu′(x). One invocation for each lane.

fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  store_dx(i, load_dx(i) * gate_of(load_x(i)).slope);
}
