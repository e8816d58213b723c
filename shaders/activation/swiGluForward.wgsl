// y = silu(gate)·up. One invocation for each lane of y_NI.

fn item(index: u32) {
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = load_x_N2I(at);
  store_y_NI(index, gate / (1.0 + exp_minus(gate)) * load_x_N2I(at + chunks));
}
