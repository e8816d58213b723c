// dgate = dy·up·(s + gate·s·(1 − s)) and dup = dy·gate·s with s = 1/(1 + e^(−gate)) and 1 − s = e^(−gate)·s: no
// cancellation. One invocation for each lane of dy_NI.

fn item(index: u32) {
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = load_x_N2I(at);
  let g = load_dy_NI(index);
  let e = exp_minus(gate);
  let s = 1.0 / (1.0 + e);
  store_dx_N2I(at, g * load_x_N2I(at + chunks) * (s + gate * (e * s) * s));
  store_dx_N2I(at + chunks, g * gate * s);
}
