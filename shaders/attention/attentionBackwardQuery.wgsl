// Cut as in attentionForward.wgsl: four queries and a slice of the head's width an invocation, walking over the keys.
// Matrices of scores have a column for each query and a row for each key.

// The column of ds (times scale) of one query: its scores, dy·v, lse and δ.
fn score_gradients(s: vec4f, dp: vec4f, lse_i: f32, delta_i: f32, scale: f32, keys: vec4u, query: u32) -> vec4f {
  let p = select(vec4f(0), exp(s * scale - lse_i), keys <= vec4u(query));
  return p * (dp - delta_i) * scale;
}

fn store(at: vec4u, query: u32, chunk: u32, tile: Tile) {
  dqkv[at.x + chunk] = tile[0];
  if (query + 1u < dims.T) { dqkv[at.y + chunk] = tile[1]; }
  if (query + 2u < dims.T) { dqkv[at.z + chunk] = tile[2]; }
  if (query + 3u < dims.T) { dqkv[at.w + chunk] = tile[3]; }
}

@compute @workgroup_size(HEADS, TILES)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (!has_queries(id)) { return; }
  let at = queries_of(id);
  let slice = first_chunk(id.z);
  let steps = min(at.first + STEPS, vec4u(at.last));
  let q_at = (at.sample_row + steps) * at.row_lanes + at.head_lane;
  let y_at = (at.sample_row + steps) * at.width + at.head_lane;

  var d = vec4f(0);
  for (var c = 0u; c < CHUNKS; c++) { d += column_dots(dy_tile(y_at, c), y_tile(y_at, c)); }
  let rows = at.head * dims.T + steps;
  let l = vec4f(lse[rows.x], lse[rows.y], lse[rows.z], lse[rows.w]);
  if (slice == 0u) {
    delta[rows.x] = d.x;
    delta[rows.y] = d.y;
    delta[rows.z] = d.z;
    delta[rows.w] = d.w; // rows past the end are the last row again, with the same value
  }

  var dq0 = Tile(); var dq1 = Tile(); var dq2 = Tile(); var dq3 = Tile();
  var dq4 = Tile(); var dq5 = Tile(); var dq6 = Tile(); var dq7 = Tile();

  for (var key = 0u; key <= at.first; key += 4u) {
    let keys = key + STEPS;
    let k_at = (at.sample_row + min(keys, vec4u(at.last))) * at.row_lanes + at.k_lane;
    let v_at = k_at + dims.K * CHUNKS;
    var s = mat4x4f();
    var dp = mat4x4f();
    for (var c = 0u; c < CHUNKS; c++) {
      s += scores(qkv_tile(k_at, c), qkv_tile(q_at, c));
      dp += scores(qkv_tile(v_at, c), dy_tile(y_at, c));
    }
    let ds = mat4x4f(
      score_gradients(s[0], dp[0], l.x, d.x, at.scale, keys, at.first),
      score_gradients(s[1], dp[1], l.y, d.y, at.scale, keys, at.first + 1u),
      score_gradients(s[2], dp[2], l.z, d.z, at.scale, keys, at.first + 2u),
      score_gradients(s[3], dp[3], l.w, d.w, at.scale, keys, at.first + 3u),
    );
    var ds_rows = transpose(ds);
    for (var j = 0u; j < 4u; j++) {
      let row = (at.sample_row + min(key + j, at.last)) * at.row_lanes + at.k_lane;
      let ds_j = ds_rows[j];
      dq0 += outer(qkv_lane(row, slice), ds_j); dq1 += outer(qkv_lane(row, slice + 1u), ds_j);
      dq2 += outer(qkv_lane(row, slice + 2u), ds_j); dq3 += outer(qkv_lane(row, slice + 3u), ds_j);
      if (SLICE > 4u) {
        dq4 += outer(qkv_lane(row, slice + 4u), ds_j); dq5 += outer(qkv_lane(row, slice + 5u), ds_j);
        dq6 += outer(qkv_lane(row, slice + 6u), ds_j); dq7 += outer(qkv_lane(row, slice + 7u), ds_j);
      }
    }
  }

  var dq = array(dq0, dq1, dq2, dq3, dq4, dq5, dq6, dq7);
  for (var c = 0u; c < min(SLICE, CHUNKS - slice); c++) { store(q_at, at.first, slice + c, dq[c]); }
}
