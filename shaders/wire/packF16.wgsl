// packed[i] = halves of x[2i]·gain and x[2i + 1]·gain. One invocation a word.

fn item(i: u32) {
  if (2u * i >= dims.n) { return; }
  var second = 0.0;
  if (2u * i + 1u < dims.n) { second = load_x(2u * i + 1u) * dims.gain; }
  store_packed(i, half_word(load_x(2u * i) * dims.gain, second));
}
