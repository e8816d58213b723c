// gelu(x) = ½x(1 + tanh u) = x·s and its slope s + x·s·(1 − s)·2u′ with u = √(2/π)·(x + 0.044715x³), s = 1/(1 + e^(−2u)) and
// 1 − s = e^(−2u)·s: no cancellation.
struct Gate { value: Lane, slope: Lane }
const SLOPE = 1.5957691216057308; // 2·√(2/π)
const CUBIC = 0.044715;

// x is clamped where gelu(x) is x or 0 to the last bit, so that e^(−2u) stays below the largest f32.
fn gate_of(x: Lane) -> Gate {
  let z = clamp(x, Lane(-10.0), Lane(10.0));
  let e = exp(-SLOPE * z * (1.0 + CUBIC * z * z));
  let s = 1.0 / (1.0 + e);
  return Gate(x * s, s + z * (e * s) * s * (SLOPE * (1.0 + 3.0 * CUBIC * z * z)));
}
