// log(1 + x) for x from 0 on, with all digits of a small x: WGSL's log may be 2^-21 off where it is near 0.
// Up to 1 it is the series of 2·atanh(x / (2 + x)).
fn log_of_one_and(x: f32) -> f32 {
  if (x > 1.0) { return log(1.0 + x); }
  let s = x / (2.0 + x);
  let q = s * s;
  let series = 1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q * (1.0 / 11 + q * (1.0 / 13 + q / 15)))));
  return 2.0 * (s + s * q * series);
}
