// Wider heads: a workgroup makes dv or dk, each whole up to a width of 128, so that what both need, p, is computed twice and
// dp, which dk alone needs, once. (In two slices of the width, each with both sums, both were computed twice.)

fn add_dy(before: Tile, at: Place, y_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, dy_tile(y_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at);
  workgroupBarrier();
  return sum;
}
// dy·v of a tile.
fn dp_of(at: Place, v_at: vec4u, y_at: vec4u) -> mat4x4f {
  var dp = mat4x4f();
  for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
    stage_own(at, qkv_tile(v_at, in_strip(strip + at.c)));
    stage_other(at, in_width(dy_tile(y_at, in_strip(strip + at.c)), strip + at.c));
    workgroupBarrier();
    dp = strip_scores(dp, at, strip);
    workgroupBarrier();
  }
  return dp;
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let key_head = group.x % dims.K; // group.x is b·K + key head
  let b = group.x / dims.K;
  let sample_row = b * dims.T;
  let first = TILE * group.y; // the longest walks start first
  let makes_dk = group.z % 2u == 1u;
  let slice = first_chunk(group.z / 2u);
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let heads = dims.H / dims.K;
  let keys = rows_of(first + at.r);
  let k_at = (sample_row + inside(keys)) * row_lanes + width + key_head * CHUNKS;
  let v_at = k_at + dims.K * CHUNKS;

  var sum0 = Tile(); var sum1 = Tile(); var sum2 = Tile(); var sum3 = Tile();
  for (var h = key_head * heads; h < (key_head + 1u) * heads; h++) {
    for (var query = first; query < dims.T; query += TILE) {
      let staged = sample_row + inside(rows_of(query + at.r));
      let q_at = staged * row_lanes + h * CHUNKS;
      let y_at = staged * width + h * CHUNKS;
      let queries = rows_of(query + at.c);
      let rows = (b * dims.H + h) * dims.T + inside(queries);
      keep_weights(at, p_of(scores_of(at, k_at, q_at), keys, queries, rows));
      if (makes_dk) {
        keep_ds(at, dp_of(at, v_at, y_at), rows);
        sum0 = add_queries(sum0, at, q_at, slice);
        if (SLICE > STRIP) { sum1 = add_queries(sum1, at, q_at, slice + STRIP); }
        if (SLICE > 2u * STRIP) { sum2 = add_queries(sum2, at, q_at, slice + 2u * STRIP); }
        if (SLICE > 3u * STRIP) { sum3 = add_queries(sum3, at, q_at, slice + 3u * STRIP); }
      } else {
        sum0 = add_dy(sum0, at, y_at, slice);
        if (SLICE > STRIP) { sum1 = add_dy(sum1, at, y_at, slice + STRIP); }
        if (SLICE > 2u * STRIP) { sum2 = add_dy(sum2, at, y_at, slice + 2u * STRIP); }
        if (SLICE > 3u * STRIP) { sum3 = add_dy(sum3, at, y_at, slice + 3u * STRIP); }
      }
    }
  }

  let out = select(v_at, k_at, makes_dk);
  store(keys, slice + at.c, sum0, out);
  if (SLICE > STRIP) { store(keys, slice + STRIP + at.c, sum1, out); }
  if (SLICE > 2u * STRIP) { store(keys, slice + 2u * STRIP + at.c, sum2, out); }
  if (SLICE > 3u * STRIP) { store(keys, slice + 3u * STRIP + at.c, sum3, out); }
}
