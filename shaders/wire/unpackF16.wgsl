// x[2i], x[2i + 1] = the halves of packed[i], times gain. One invocation a word.

fn item(i: u32) {
  if (2u * i >= dims.n) { return; }
  let pair = unpack2x16float(load_packed(i)) * dims.gain;
  store_x(2u * i, pair.x);
  if (2u * i + 1u < dims.n) { store_x(2u * i + 1u, pair.y); }
}
