// For GPUs: own rows are queries, other ones keys and values (attentionTiles.wgsl).

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_y_BTHD(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_y_BTHD(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_y_BTHD(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_y_BTHD(at.w + chunk, tile[3]); }
}
// A strip of the values, summed by weight onto what the keys before have left.
fn add_values(before: Tile, shrink: vec4f, at: Place, v_at: vec4u, chunk: u32) -> Tile {
  stage_other(at, qkv_tile(v_at, in_strip(chunk + at.c)));
  workgroupBarrier();
  let sum = weighted(scale_columns(before, shrink), at);
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
  let firsts = firsts_of(sample_row + inside(queries));
  let scale = dims.scale;

  var y0 = Tile(); var y1 = Tile(); var y2 = Tile(); var y3 = Tile();
  var most = vec4f(HIDDEN); // of each own query: largest score so far,
  var sum = vec4f(0); // and this invocation's part of the sum of exp(score − largest)

  for (var key = first_tile(sample_row + first); key <= first; key += TILE) {
    let staged = (sample_row + inside(rows_of(key + at.r))) * row_lanes;
    var s = mat4x4f();
    for (var strip = 0u; strip < CHUNKS; strip += STRIP) {
      stage_own(at, qkv_tile(q_at, in_strip(strip + at.c)));
      stage_other(at, in_width(qkv_tile(staged + k_lane, in_strip(strip + at.c)), strip + at.c));
      workgroupBarrier();
      s = strip_scores(s, at, strip);
      workgroupBarrier();
    }
    // Those keys that a query may not see get a score whose exp is 0.
    let keys = rows_of(key + at.c);
    let s0 = select(vec4f(HIDDEN), s[0] * scale, seen_by(queries, firsts, keys.x));
    let s1 = select(vec4f(HIDDEN), s[1] * scale, seen_by(queries, firsts, keys.y));
    let s2 = select(vec4f(HIDDEN), s[2] * scale, seen_by(queries, firsts, keys.z));
    let s3 = select(vec4f(HIDDEN), s[3] * scale, seen_by(queries, firsts, keys.w));
    across[local % (SIDE * SIDE)] = max(max(s0, s1), max(s2, s3));
    workgroupBarrier();
    let most_new = max(most, largest_across(at));
    let p = mat4x4f(exp(s0 - most_new), exp(s1 - most_new), exp(s2 - most_new), exp(s3 - most_new));
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + ((p[0] + p[1]) + (p[2] + p[3]));
    keep_weights(at, p);
    let v_at = staged + v_lane;
    y0 = add_values(y0, shrink, at, v_at, slice);
    if (SLICE > STRIP) { y1 = add_values(y1, shrink, at, v_at, slice + STRIP); }
    if (SLICE > 2u * STRIP) { y2 = add_values(y2, shrink, at, v_at, slice + 2u * STRIP); }
    if (SLICE > 3u * STRIP) { y3 = add_values(y3, shrink, at, v_at, slice + 3u * STRIP); }
  }

  across[local % (SIDE * SIDE)] = sum;
  workgroupBarrier();
  let whole = total_across(at);
  let share = 1.0 / whole;
  let y_at = (sample_row + inside(queries)) * width + h * CHUNKS;
  store(queries, slice + at.c, scale_columns(y0, share), y_at);
  if (SLICE > STRIP) { store(queries, slice + STRIP + at.c, scale_columns(y1, share), y_at); }
  if (SLICE > 2u * STRIP) { store(queries, slice + 2u * STRIP + at.c, scale_columns(y2, share), y_at); }
  if (SLICE > 3u * STRIP) { store(queries, slice + 3u * STRIP + at.c, scale_columns(y3, share), y_at); }
  if (group.z == 0u && at.c == 0u) {
    let value = most + log(whole);
    let row = group.x * dims.T;
    if (queries.x < dims.T) { store_lse_BHT(row + queries.x, value.x); }
    if (queries.y < dims.T) { store_lse_BHT(row + queries.y, value.y); }
    if (queries.z < dims.T) { store_lse_BHT(row + queries.z, value.z); }
    if (queries.w < dims.T) { store_lse_BHT(row + queries.w, value.w); }
  }
}
