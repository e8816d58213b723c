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

// One workgroup a partial.
@compute @workgroup_size(GROUP)
fn workgroups(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
  let sum = workgroup_total(lane, squares_of(group.x, lane, GROUP));
  if (lane == 0u) { partials[group.x] = sum; }
}
