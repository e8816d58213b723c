// partials[p] = Σ x[i]² over the blocks of BLOCK elements whose number is p modulo PARTIALS. The caller adds the
// partials in float64. A float32 chain loses about √length·6e-8 of itself: a block is summed on its own before it joins
// the long sum, so a chain is at most BLOCK + n/(BLOCK·PARTIALS) long.
struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read_write> partials: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;

override PARTIALS: u32;
override BLOCK: u32;

// Lanes `first`, first + step, … of each of partial p's blocks.
fn squares_of(p: u32, first: u32, step: u32) -> f32 {
  let chunks = dims.n / WIDTH;
  let block_chunks = BLOCK / WIDTH;
  var sum = Lane();
  for (var start = p * block_chunks; start < chunks; start += PARTIALS * block_chunks) {
    let end = min(start + block_chunks, chunks);
    var block = Lane();
    for (var i = start + first; i < end; i += step) {
      let value = x[i];
      block += value * value;
    }
    sum += block;
  }
  return total(sum);
}

// One invocation a partial.
@compute @workgroup_size(ROWS)
fn rows(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < PARTIALS) { partials[id.x] = squares_of(id.x, 0u, 1u); }
}

// Sums of one lane of each of partial p's blocks, by the TEAM invocations of a workgroup: as many blocks at a time as they
// have lanes for, four such rounds in flight.
fn square_at(block: u32, lane: u32) -> Lane {
  let i = block * (BLOCK / WIDTH) + lane;
  if (i >= dims.n / WIDTH) { return Lane(); }
  return x[i] * x[i];
}
fn team_squares_of(p: u32, lane: u32) -> f32 {
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

// One workgroup a partial.
@compute @workgroup_size(TEAM)
fn workgroups(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let sum = workgroup_total(lane, team_squares_of(group.x, lane));
  if (lane == 0u) { partials[group.x] = sum; }
}
