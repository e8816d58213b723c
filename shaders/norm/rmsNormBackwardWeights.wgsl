// dweight[c] += Σ_n dy[n][c]·x[n][c]·r[n].

alias Sum = Lane;
fn term_of(c: u32, n: u32) -> Sum {
  let i = n * (dims.C / WIDTH) + c;
  return load_dy_NC(i) * (load_x_NC(i) * load_stat_N(n));
}
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { store_dweight_C(c, load_dweight_C(c) + sum); }
