// dweight[c] += Σ_n dy[n][c]·x̂[n][c] and dbias[c] += Σ_n dy[n][c], with x̂ = (x − mean)·r.

struct Sum { weight: Lane, bias: Lane }
fn term_of(c: u32, n: u32) -> Sum {
  let i = n * (dims.C / WIDTH) + c;
  let s = load_stat_N2(n);
  let g = load_dy_NC(i);
  return Sum(g * ((load_x_NC(i) - s.x) * s.y), g);
}
fn plus(a: Sum, b: Sum) -> Sum { return Sum(a.weight + b.weight, a.bias + b.bias); }
fn add_to(c: u32, sum: Sum) {
  store_dweight_C(c, load_dweight_C(c) + sum.weight);
  store_dbias_C(c, load_dbias_C(c) + sum.bias);
}
