// For GPUs: own rows are queries, other ones keys and values (attentionTiles.wgsl). The strips of dy are staged as those of
// q are, and the keys once more for the sums.

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_dqkv_BTED(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_dqkv_BTED(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_dqkv_BTED(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_dqkv_BTED(at.w + chunk, tile[3]); }
}
fn add_keys(before: Tile, at: Place, k_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, qkv_tile(k_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at);
  workgroupBarrier();
  return sum;
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let h = group.x % dims.H; // group.x is b·H + h
  let sample_row = group.x / dims.H * dims.T;
  let first = TILE * ((dims.T - 1u) / TILE - group.y); // the longest walks start first
  let slice = first_chunk(group.z);
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let k_lane = width + h / (dims.H / dims.K) * CHUNKS;
  let v_lane = k_lane + dims.K * CHUNKS;
  let queries = rows_of(first + at.r);
  let q_at = (sample_row + inside(queries)) * row_lanes + h * CHUNKS;
  let y_at = (sample_row + inside(queries)) * width + h * CHUNKS;
  let firsts = firsts_of(sample_row + inside(queries));
  let scale = dims.scale;

  var part = vec4f(0);
  for (var c = at.c; c < CHUNKS; c += SIDE) { part += column_dots(dy_tile(y_at, c), y_tile(y_at, c)); }
  across[local % (SIDE * SIDE)] = part;
  workgroupBarrier();
  let d = total_across(at);
  let rows = group.x * dims.T + inside(queries);
  let l = vec4f(load_lse_BHT(rows.x), load_lse_BHT(rows.y), load_lse_BHT(rows.z), load_lse_BHT(rows.w));
  if (group.z == 0u && at.c == 0u) {
    if (queries.x < dims.T) { store_delta_BHT(rows.x, d.x); }
    if (queries.y < dims.T) { store_delta_BHT(rows.y, d.y); }
    if (queries.z < dims.T) { store_delta_BHT(rows.z, d.z); }
    if (queries.w < dims.T) { store_delta_BHT(rows.w, d.w); }
  }

  var dq0 = Tile(); var dq1 = Tile(); var dq2 = Tile(); var dq3 = Tile();
  for (var key = first_tile(sample_row + first); key <= first; key += TILE) {
    let staged = (sample_row + inside(rows_of(key + at.r))) * row_lanes;
    let k_at = staged + k_lane;
    let v_at = staged + v_lane;
    var s = mat4x4f();
    for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
      stage_own(at, qkv_tile(q_at, in_strip(strip + at.c)));
      stage_other(at, in_width(qkv_tile(k_at, in_strip(strip + at.c)), strip + at.c));
      workgroupBarrier();
      s = strip_scores(s, at, strip);
      workgroupBarrier();
    }
    // p waits in workgroup memory: with dp and the sums beside it the registers would not do.
    let keys = rows_of(key + at.c);
    keep_weights(at, mat4x4f(
      select(vec4f(0), exp(s[0] * scale - l), seen_by(queries, firsts, keys.x)),
      select(vec4f(0), exp(s[1] * scale - l), seen_by(queries, firsts, keys.y)),
      select(vec4f(0), exp(s[2] * scale - l), seen_by(queries, firsts, keys.z)),
      select(vec4f(0), exp(s[3] * scale - l), seen_by(queries, firsts, keys.w)),
    ));
    var dp = mat4x4f();
    for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
      stage_own(at, dy_tile(y_at, in_strip(strip + at.c)));
      stage_other(at, in_width(qkv_tile(v_at, in_strip(strip + at.c)), strip + at.c));
      workgroupBarrier();
      dp = strip_scores(dp, at, strip);
      workgroupBarrier();
    }
    let p = kept_weights(at);
    keep_weights(at, mat4x4f(
      p[0] * (dp[0] - d) * scale, p[1] * (dp[1] - d) * scale, p[2] * (dp[2] - d) * scale, p[3] * (dp[3] - d) * scale,
    ));
    dq0 = add_keys(dq0, at, k_at, slice);
    if (SLICE > STRIP) { dq1 = add_keys(dq1, at, k_at, slice + STRIP); }
    if (SLICE > 2u * STRIP) { dq2 = add_keys(dq2, at, k_at, slice + 2u * STRIP); }
    if (SLICE > 3u * STRIP) { dq3 = add_keys(dq3, at, k_at, slice + 3u * STRIP); }
  }

  store(queries, slice + at.c, dq0, q_at);
  if (SLICE > STRIP) { store(queries, slice + STRIP + at.c, dq1, q_at); }
  if (SLICE > 2u * STRIP) { store(queries, slice + 2u * STRIP + at.c, dq2, q_at); }
  if (SLICE > 3u * STRIP) { store(queries, slice + 3u * STRIP + at.c, dq3, q_at); }
}
