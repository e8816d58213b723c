// Two floats as a word of halves. Rounding (to even), saturation and what is not finite are settled on the bits of the
// floats, so that pack2x16float has nothing left to round: some GPUs would cut, and none promises anything of NaN.
const INFINITY_BITS = 0x7f800000u;
const LARGEST_BITS = 0x477fe000u; // 65504

// The float of eleven significant bits that is nearest, at most the largest half.
fn rounded(bits: u32) -> f32 {
  let magnitude = bits & 0x7fffffffu;
  let nearest = (magnitude + 0xfffu + ((magnitude >> 13u) & 1u)) & 0xffffe000u;
  return bitcast<f32>((bits & 0x80000000u) | min(nearest, LARGEST_BITS));
}

fn finished(half: u32, bits: u32) -> u32 {
  let magnitude = bits & 0x7fffffffu;
  if (magnitude < INFINITY_BITS) { return half; }
  return select(0x7e00u, ((bits >> 16u) & 0x8000u) | 0x7c00u, magnitude == INFINITY_BITS);
}

fn half_word(low: f32, high: f32) -> u32 {
  let first = bitcast<u32>(low);
  let second = bitcast<u32>(high);
  let word = pack2x16float(vec2f(rounded(first), rounded(second)));
  return finished(word & 0xffffu, first) | (finished(word >> 16u, second) << 16u);
}
