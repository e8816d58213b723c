// For software adapters and heads wider than a slice: one invocation takes four queries of one head and one slice of the
// head's width, and walks over the keys four at a time. Everything is a product of 4×4 tiles: a Tile is one lane (four
// elements, or one) of four rows, side by side.
// Matrices of scores have a column for each query and a row for each key.

fn store(at: vec4u, query: u32, chunk: u32, tile: Tile) {
  store_y_BTHD(at.x + chunk, tile[0]);
  if (query + 1u < dims.T) { store_y_BTHD(at.y + chunk, tile[1]); }
  if (query + 2u < dims.T) { store_y_BTHD(at.z + chunk, tile[2]); }
  if (query + 3u < dims.T) { store_y_BTHD(at.w + chunk, tile[3]); }
}
// A query's scores with four keys; those it may not see get a value whose exp is 0.
fn visible(s: vec4f, keys: vec4u, query: u32, first: u32) -> vec4f {
  return select(vec4f(HIDDEN), s, (keys >= vec4u(first)) & (keys <= vec4u(query)));
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  if (!has_queries(id)) { return; }
  let at = queries_of(id);
  let slice = first_chunk(id.z);
  let v_lane = at.k_lane + dims.K * CHUNKS;
  let query_rows = at.sample_row + min(at.first + STEPS, vec4u(at.last));
  let q_at = query_rows * at.row_lanes + at.head_lane;

  var y0 = Tile(); var y1 = Tile(); var y2 = Tile(); var y3 = Tile();
  var y4 = Tile(); var y5 = Tile(); var y6 = Tile(); var y7 = Tile();
  var most = vec4f(HIDDEN); // of each query: largest score so far, and the sum of exp(score − largest)
  var sum = vec4f(0);

  for (var key = at.firsts.x / 4u * 4u; key <= at.first; key += 4u) {
    let keys = key + STEPS;
    let k_at = (at.sample_row + min(keys, vec4u(at.last))) * at.row_lanes + at.k_lane;
    var s = mat4x4f();
    for (var c = 0u; c < CHUNKS; c++) {
      s += scores(qkv_tile(k_at, c), qkv_tile(q_at, c));
    }
    let s0 = visible(s[0] * at.scale, keys, at.first, at.firsts.x);
    let s1 = visible(s[1] * at.scale, keys, at.first + 1u, at.firsts.y);
    let s2 = visible(s[2] * at.scale, keys, at.first + 2u, at.firsts.z);
    let s3 = visible(s[3] * at.scale, keys, at.first + 3u, at.firsts.w);
    let most_new = max(most, vec4f(largest4(s0), largest4(s1), largest4(s2), largest4(s3)));
    let p = mat4x4f(exp(s0 - most_new.x), exp(s1 - most_new.y), exp(s2 - most_new.z), exp(s3 - most_new.w));
    let shrink = exp(most - most_new);
    most = most_new;
    sum = sum * shrink + vec4f(total4(p[0]), total4(p[1]), total4(p[2]), total4(p[3]));
    y0 = scale_columns(y0, shrink); y1 = scale_columns(y1, shrink);
    y2 = scale_columns(y2, shrink); y3 = scale_columns(y3, shrink);
    if (SLICE > 4u) {
      y4 = scale_columns(y4, shrink); y5 = scale_columns(y5, shrink);
      y6 = scale_columns(y6, shrink); y7 = scale_columns(y7, shrink);
    }
    var p_rows = transpose(p);
    for (var j = 0u; j < 4u; j++) {
      let v_at = (at.sample_row + min(key + j, at.last)) * at.row_lanes + v_lane;
      let p_j = p_rows[j];
      y0 += outer(qkv_lane(v_at, slice), p_j); y1 += outer(qkv_lane(v_at, slice + 1u), p_j);
      y2 += outer(qkv_lane(v_at, slice + 2u), p_j); y3 += outer(qkv_lane(v_at, slice + 3u), p_j);
      if (SLICE > 4u) {
        y4 += outer(qkv_lane(v_at, slice + 4u), p_j); y5 += outer(qkv_lane(v_at, slice + 5u), p_j);
        y6 += outer(qkv_lane(v_at, slice + 6u), p_j); y7 += outer(qkv_lane(v_at, slice + 7u), p_j);
      }
    }
  }

  let y_at = query_rows * at.width + at.head_lane;
  let share = 1.0 / sum;
  var parts = array(y0, y1, y2, y3, y4, y5, y6, y7);
  for (var c = 0u; c < min(SLICE, CHUNKS - slice); c++) {
    store(y_at, at.first, slice + c, scale_columns(parts[c], share));
  }
  if (slice == 0u) {
    let rows = at.head * dims.T + at.first;
    let value = most + log(sum);
    store_lse_BHT(rows, value.x);
    if (at.first + 1u < dims.T) { store_lse_BHT(rows + 1u, value.y); }
    if (at.first + 2u < dims.T) { store_lse_BHT(rows + 2u, value.z); }
    if (at.first + 3u < dims.T) { store_lse_BHT(rows + 3u, value.w); }
  }
}
