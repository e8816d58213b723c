// y[offset + i] = x[i]. One invocation a lane.

fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  store_y(dims.offset / WIDTH + i, load_x(i));
}
