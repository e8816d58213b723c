// Wider heads: two teams of 64 invocations share a tile. Of every score each makes the part of half of a strip's lanes, and of
// the sums it makes every other strip, so a score is computed once and nobody has more sums than with a head of 64.
// (A workgroup for dk and one for dv computed q·k twice.)
const TEAM = SIDE * SIDE;

fn stage_strip(at: Place, team: u32, tile: Tile) {
  if (team == 0u) { stage_own(at, tile); } else { stage_other(at, tile); }
}
// Each team sums the strip that it staged.
fn add_strip(before: Tile, at: Place, team: u32, tile: Tile) -> Tile {
  stage_strip(at, team, tile);
  workgroupBarrier();
  var sum = before;
  if (team == 0u) { sum = weighted_own(before, at); } else { sum = weighted(before, at); }
  workgroupBarrier();
  return sum;
}

// This team's part of q·k of a tile.
fn part_of_scores(at: Place, team: u32, k_at: vec4u, q_at: vec4u) -> mat4x4f {
  var s = mat4x4f();
  for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
    let chunk = in_strip(strip + at.c);
    if (team == 0u) { stage_own(at, qkv_tile(k_at, chunk)); }
    else { stage_other(at, in_width(qkv_tile(q_at, chunk), strip + at.c)); }
    workgroupBarrier();
    s = strip_scores(s, at, strip, team);
    workgroupBarrier();
  }
  return s;
}
// This team's part of dy·v of a tile.
fn part_of_dp(at: Place, team: u32, v_at: vec4u, y_at: vec4u) -> mat4x4f {
  var dp = mat4x4f();
  for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
    let chunk = in_strip(strip + at.c);
    if (team == 0u) { stage_own(at, qkv_tile(v_at, chunk)); }
    else { stage_other(at, in_width(dy_tile(y_at, chunk), strip + at.c)); }
    workgroupBarrier();
    dp = strip_scores(dp, at, strip, team);
    workgroupBarrier();
  }
  return dp;
}

// The second team leaves its part where the weights go, and the first one makes p of both.
fn keep_p(at: Place, team: u32, part: mat4x4f, keys: vec4u, queries: vec4u, rows: vec4u, firsts: vec4u) {
  if (team == 1u) { keep_weights(at, part); }
  workgroupBarrier();
  if (team == 0u) { keep_weights(at, p_of(part + kept_weights(at), keys, queries, rows, firsts)); }
  workgroupBarrier();
}
// The weights that were kept are p; from here on they are ds = scale·p·(dp − δ), again of both parts of dp.
fn keep_both_ds(at: Place, team: u32, part: mat4x4f, rows: vec4u) {
  let scale = dims.scale;
  let p = kept_weights(at);
  workgroupBarrier();
  if (team == 1u) { keep_weights(at, part); }
  workgroupBarrier();
  if (team == 0u) {
    let dp = part + kept_weights(at);
    keep_weights(at, mat4x4f(
      p[0] * (dp[0] - load_delta_BHT(rows.x)) * scale, p[1] * (dp[1] - load_delta_BHT(rows.y)) * scale,
      p[2] * (dp[2] - load_delta_BHT(rows.z)) * scale, p[3] * (dp[3] - load_delta_BHT(rows.w)) * scale,
    ));
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let key_head = group.x % dims.K; // group.x is b·K + key head
  let b = group.x / dims.K;
  let sample_row = b * dims.T;
  let first = TILE * group.y; // the longest walks start first
  let team = local / TEAM;
  let slice = first_chunk(group.z) + team * STRIP;
  let at = place_of(local % TEAM);
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
      let s = part_of_scores(at, team, k_at, q_at);
      keep_p(at, team, s, keys, queries, rows, firsts_of(sample_row + inside(queries)));
      dv0 = add_strip(dv0, at, team, dy_tile(y_at, in_strip(slice + at.c)));
      dv1 = add_strip(dv1, at, team, dy_tile(y_at, in_strip(slice + 2u * STRIP + at.c)));
      keep_both_ds(at, team, part_of_dp(at, team, v_at, y_at), rows);
      dk0 = add_strip(dk0, at, team, qkv_tile(q_at, in_strip(slice + at.c)));
      dk1 = add_strip(dk1, at, team, qkv_tile(q_at, in_strip(slice + 2u * STRIP + at.c)));
    }
  }

  store(keys, slice + at.c, dk0, k_at);
  store(keys, slice + at.c, dv0, v_at);
  // Of three strips the second team has one.
  if (SLICE > 3u * STRIP || team == 0u) {
    store(keys, slice + 2u * STRIP + at.c, dk1, k_at);
    store(keys, slice + 2u * STRIP + at.c, dv1, v_at);
  }
}
