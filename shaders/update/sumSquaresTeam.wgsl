// sumSquares.wgsl for GPUs. Sums of one lane of each of partial p's blocks, by the TEAM invocations of a workgroup: as many
// blocks at a time as they have lanes for, four such rounds in flight.
fn square_at(block: u32, lane: u32) -> Lane {
  let i = block * (BLOCK / WIDTH) + lane;
  if (i >= dims.n / WIDTH) { return Lane(); }
  return load_x(i) * load_x(i);
}
fn squares_of(p: u32, lane: u32) -> f32 {
  let block_chunks = BLOCK / WIDTH;
  let blocks = (dims.n / WIDTH + block_chunks - 1u) / block_chunks;
  let i = lane % block_chunks;
  let stride = TEAM / block_chunks * PARTIALS;
  var sum0 = Lane(); var sum1 = Lane(); var sum2 = Lane(); var sum3 = Lane();
  for (var block = p + lane / block_chunks * PARTIALS; block < blocks; block += 4u * stride) {
    sum0 += square_at(block, i);
    sum1 += square_at(block + stride, i);
    sum2 += square_at(block + 2u * stride, i);
    sum3 += square_at(block + 3u * stride, i);
  }
  return total((sum0 + sum1) + (sum2 + sum3));
}

fn row(p: u32, lane: u32) {
  let sum = team_total(lane, squares_of(p, lane));
  if (lane == 0u) { store_partials(p, sum + select(0.0, load_partials(p), dims.accumulate == 1u)); }
}
