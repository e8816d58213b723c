// sum += x, element by element. One invocation a lane.

fn item(i: u32) {
  if (i >= dims.n / WIDTH) { return; }
  store_acc(i, load_acc(i) + load_x(i));
}
