// Heads up to 64 wide: an invocation has registers for both sums. A strip of dy that is staged for dp is there for dv too, so
// it is summed at once, by p; then the weights are ds, and the queries are staged once more for dk.

fn stage_dy(at: Place, v_at: vec4u, y_at: vec4u, strip: u32) {
  let chunk = in_strip(strip + at.c);
  stage_own(at, qkv_tile(v_at, chunk));
  stage_other(at, in_width(dy_tile(y_at, chunk), strip + at.c));
  workgroupBarrier();
}

fn add_queries(before: Tile, at: Place, q_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, qkv_tile(q_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(before, at);
  workgroupBarrier();
  return sum;
}

// q·k of a tile.
fn scores_of(at: Place, k_at: vec4u, q_at: vec4u) -> mat4x4f {
  var s = mat4x4f();
  for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
    stage_own(at, qkv_tile(k_at, in_strip(strip + at.c)));
    stage_other(at, in_width(qkv_tile(q_at, in_strip(strip + at.c)), strip + at.c));
    workgroupBarrier();
    s = strip_scores(s, at, strip);
    workgroupBarrier();
  }
  return s;
}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let key_head = group.x % dims.K; // group.x is b·K + key head
  let b = group.x / dims.K;
  let sample_row = b * dims.T;
  let first = TILE * group.y; // the longest walks start first
  let at = place_of(local);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let heads = dims.H / dims.K;
  let keys = rows_of(first + at.r);
  let k_at = (sample_row + inside(keys)) * row_lanes + width + key_head * CHUNKS;
  let v_at = k_at + dims.K * CHUNKS;

  var dk0 = Tile(); var dk1 = Tile();
  var dv0 = Tile(); var dv1 = Tile();
  for (var h = key_head * heads; h < (key_head + 1u) * heads; h++) {
    for (var query = first; query < dims.T; query += TILE) {
      if (is_past(first, sample_row + query)) { break; }
      let staged = sample_row + inside(rows_of(query + at.r));
      let q_at = staged * row_lanes + h * CHUNKS;
      let y_at = staged * width + h * CHUNKS;
      let queries = rows_of(query + at.c);
      let rows = (b * dims.H + h) * dims.T + inside(queries);
      let s = scores_of(at, k_at, q_at);
      keep_weights(at, p_of(s, keys, queries, rows, firsts_of(sample_row + inside(queries))));
      var dp = mat4x4f();
      stage_dy(at, v_at, y_at, 0u);
      dp = strip_scores(dp, at, 0u);
      dv0 = weighted(dv0, at);
      workgroupBarrier();
      if (CHUNKS > STRIP) {
        stage_dy(at, v_at, y_at, STRIP);
        dp = strip_scores(dp, at, STRIP);
        dv1 = weighted(dv1, at);
        workgroupBarrier();
      }
      keep_ds(at, dp, rows);
      dk0 = add_queries(dk0, at, q_at, 0u);
      if (CHUNKS > STRIP) { dk1 = add_queries(dk1, at, q_at, STRIP); }
    }
  }

  store(keys, at.c, dk0, k_at);
  store(keys, at.c, dv0, v_at);
  if (CHUNKS > STRIP) {
    store(keys, STRIP + at.c, dk1, k_at);
    store(keys, STRIP + at.c, dv1, v_at);
  }
}
