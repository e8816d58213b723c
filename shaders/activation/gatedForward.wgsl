// y = act(gate)·up. One invocation for each lane of y_NI.

fn item(index: u32) {
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  store_y_NI(index, gate_of(load_x_N2I(at)).value * load_x_N2I(at + chunks));
}
