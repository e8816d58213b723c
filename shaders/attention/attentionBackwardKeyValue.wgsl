// For GPUs: own rows are keys and values, other ones the queries of all heads that read them (attentionTiles.wgsl), which
// are staged for the scores and once more for the sums. The weights are p for dv, then ds for dk.

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_dqkv_BTED(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_dqkv_BTED(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_dqkv_BTED(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_dqkv_BTED(at.w + chunk, tile[3]); }
}
fn add_queries(before: Tile, at: Place, q_at: vec4u, chunk: u32) -> Tile {
  stage_other(at.staged, qkv_tile(q_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at.r, at.c);
  workgroupBarrier();
  return sum;
}
fn add_dy(before: Tile, at: Place, y_at: vec4u, chunk: u32) -> Tile {
  stage_other(at.staged, dy_tile(y_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at.r, at.c);
  workgroupBarrier();
  return sum;
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let key_head = group.x % dims.K; // group.x is b·K + key head
  let b = group.x / dims.K;
  let sample_row = b * dims.T;
  let first = TILE * group.y; // the longest walks start first
  let slice = first_chunk(group.z);
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let heads = dims.H / dims.K;
  let keys = rows_of(first + at.r);
  let k_at = (sample_row + inside(keys)) * row_lanes + width + key_head * CHUNKS;
  let v_at = k_at + dims.K * CHUNKS;
  let scale = 1.0 / sqrt(f32(dims.D));

  var dk0 = Tile(); var dk1 = Tile();
  var dv0 = Tile(); var dv1 = Tile();
  for (var h = key_head * heads; h < (key_head + 1u) * heads; h++) {
    for (var query = first; query < dims.T; query += TILE) {
      let staged = sample_row + inside(rows_of(query + at.r));
      let q_at = staged * row_lanes + h * CHUNKS;
      let y_at = staged * width + h * CHUNKS;
      var s = mat4x4f();
      var dp = mat4x4f();
      for (var strip = 0u; strip < dims.D / WIDTH; strip += STRIP) {
        stage_own(at.staged, qkv_tile(k_at, in_strip(strip + at.c)));
        stage_other(at.staged, qkv_tile(q_at, in_strip(strip + at.c)));
        workgroupBarrier();
        s = strip_scores(s, at.r, at.c, lanes_of(strip));
        workgroupBarrier();
        stage_own(at.staged, qkv_tile(v_at, in_strip(strip + at.c)));
        stage_other(at.staged, dy_tile(y_at, in_strip(strip + at.c)));
        workgroupBarrier();
        dp = strip_scores(dp, at.r, at.c, lanes_of(strip));
        workgroupBarrier();
      }
      let queries = rows_of(query + at.c);
      let rows = (b * dims.H + h) * dims.T + inside(queries);
      // Queries past the end see no key.
      let seeing = select(vec4u(0), queries + 1u, queries < vec4u(dims.T));
      let p0 = select(vec4f(0), exp(s[0] * scale - load_lse_BHT(rows.x)), keys < vec4u(seeing.x));
      let p1 = select(vec4f(0), exp(s[1] * scale - load_lse_BHT(rows.y)), keys < vec4u(seeing.y));
      let p2 = select(vec4f(0), exp(s[2] * scale - load_lse_BHT(rows.z)), keys < vec4u(seeing.z));
      let p3 = select(vec4f(0), exp(s[3] * scale - load_lse_BHT(rows.w)), keys < vec4u(seeing.w));
      keep_weights(at.r, at.c, mat4x4f(p0, p1, p2, p3));
      dv0 = add_dy(dv0, at, y_at, slice);
      if (SLICE > STRIP) { dv1 = add_dy(dv1, at, y_at, slice + STRIP); }
      keep_weights(at.r, at.c, mat4x4f(
        p0 * (dp[0] - load_delta_BHT(rows.x)) * scale, p1 * (dp[1] - load_delta_BHT(rows.y)) * scale,
        p2 * (dp[2] - load_delta_BHT(rows.z)) * scale, p3 * (dp[3] - load_delta_BHT(rows.w)) * scale,
      ));
      dk0 = add_queries(dk0, at, q_at, slice);
      if (SLICE > STRIP) { dk1 = add_queries(dk1, at, q_at, slice + STRIP); }
    }
  }

  store(keys, slice + at.c, dk0, k_at);
  store(keys, slice + at.c, dv0, v_at);
  if (SLICE > STRIP) {
    store(keys, slice + STRIP + at.c, dk1, k_at);
    store(keys, slice + STRIP + at.c, dv1, v_at);
  }
}
