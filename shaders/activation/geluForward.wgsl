// y = gelu(x). One invocation for each lane.

fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  store_y(i, gate_of(load_x(i)).value);
}
