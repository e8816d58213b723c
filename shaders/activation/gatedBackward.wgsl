// dgate = dy·up·act′(gate) and dup = dy·act(gate). One invocation for each lane of dy_NI.

fn item(index: u32) {
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = gate_of(load_x_N2I(at));
  let g = load_dy_NI(index);
  store_dx_N2I(at, g * load_x_N2I(at + chunks) * gate.slope);
  store_dx_N2I(at + chunks, g * gate.value);
}
