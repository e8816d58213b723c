// partials[p] = Σ x[i]² over the blocks of BLOCK elements whose number is p modulo PARTIALS. The caller adds the
// partials in float64. A float32 chain loses about √length·6e-8 of itself: a block is summed on its own before it joins
// the long sum, so a chain is at most BLOCK + n/(BLOCK·PARTIALS) long. For software adapters.
fn row(p: u32, lane: u32) {
  if (p >= PARTIALS) { return; }
  let chunks = dims.n / WIDTH;
  let block_chunks = BLOCK / WIDTH;
  var sum = Lane();
  for (var start = p * block_chunks; start < chunks; start += PARTIALS * block_chunks) {
    let end = min(start + block_chunks, chunks);
    var block = Lane();
    for (var i = start; i < end; i++) {
      let value = load_x(i);
      block += value * value;
    }
    sum += block;
  }
  store_partials(p, total(sum) + select(0.0, load_partials(p), dims.accumulate == 1u));
}
