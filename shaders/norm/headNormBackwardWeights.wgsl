// dweight[d] += Σ_n Σ_h dy·x·r over the heads of queries, then, for the second weight, over those of keys.

alias Sum = Lane;
fn term_of(c: u32, n: u32) -> Sum {
  let chunks = dims.C / 2u / WIDTH;
  let ofKeys = c >= chunks;
  let first = select(0u, dims.H, ofKeys);
  let end = select(dims.H, dims.H + dims.K, ofKeys);
  var sum = Lane();
  for (var head = first; head < end; head++) {
    let i = (n * (dims.H + 2u * dims.K) + head) * chunks + c % chunks;
    sum += load_dy_NED(i) * (load_x_NED(i) * load_stat_NG(n * (dims.H + dims.K) + head));
  }
  return sum;
}
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { store_dweight_2D(c, load_dweight_2D(c) + sum); }
