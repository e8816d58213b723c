// silu(x) = x·s and its slope s + x·s·(1 − s) with s = 1/(1 + e^(−x)) and 1 − s = e^(−x)·s: no cancellation.
struct Gate { value: Lane, slope: Lane }

// e^(−x) is clamped where silu(x) is x or 0 to the last bit, so that it stays below the largest f32.
fn gate_of(x: Lane) -> Gate {
  let e = exp(-clamp(x, Lane(-80.0), Lane(80.0)));
  let s = 1.0 / (1.0 + e);
  return Gate(x * s, s + x * (e * s) * s);
}
