// x[n] *= weight[n], row by row. One invocation a lane.

fn item(i: u32) {
  let n = i / (dims.C / WIDTH);
  if (n >= dims.N) { return; }
  store_x_NC(i, load_x_NC(i) * load_weight_N(n));
}
