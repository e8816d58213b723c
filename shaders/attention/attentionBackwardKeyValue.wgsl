// Cut as in attentionForward.wgsl, the other way round: four keys and a slice of the head's width an invocation, walking
// over the queries. Matrices of scores have a column for each key and a row for each query.

// The column of p of one key: 0 for the queries before it and those past the end.
fn probabilities(s: vec4f, lse_i: vec4f, scale: f32, queries: vec4u, key: u32) -> vec4f {
  return select(vec4f(0), exp(s * scale - lse_i), (queries >= vec4u(key)) & (queries < vec4u(dims.T)));
}

fn store(at: vec4u, key: u32, chunk: u32, tile: Tile) {
  dqkv[at.x + chunk] = tile[0];
  if (key + 1u < dims.T) { dqkv[at.y + chunk] = tile[1]; }
  if (key + 2u < dims.T) { dqkv[at.z + chunk] = tile[2]; }
  if (key + 3u < dims.T) { dqkv[at.w + chunk] = tile[3]; }
}

@compute @workgroup_size(HEADS, TILES)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let key_head = id.x % dims.K; // id.x is b·K + key head
  let b = id.x / dims.K;
  if (b >= dims.B || id.y >= (dims.T + 3u) / 4u) { return; }
  let key = 4u * id.y; // the longest walks start first
  let slice = first_chunk(id.z);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let group = dims.H / dims.K;
  let sample_row = b * dims.T;
  let last = dims.T - 1u;
  let k_at = (sample_row + min(key + STEPS, vec4u(last))) * row_lanes + width + key_head * CHUNKS;
  let v_at = k_at + dims.K * CHUNKS;
  let scale = 1.0 / sqrt(f32(dims.D));

  var dk0 = Tile(); var dk1 = Tile(); var dk2 = Tile(); var dk3 = Tile();
  var dk4 = Tile(); var dk5 = Tile(); var dk6 = Tile(); var dk7 = Tile();
  var dv0 = Tile(); var dv1 = Tile(); var dv2 = Tile(); var dv3 = Tile();
  var dv4 = Tile(); var dv5 = Tile(); var dv6 = Tile(); var dv7 = Tile();

  for (var h = key_head * group; h < (key_head + 1u) * group; h++) {
    let head = b * dims.H + h;
    let head_lane = h * CHUNKS;
    for (var query = key; query < dims.T; query += 4u) {
      let queries = query + STEPS;
      let steps = min(queries, vec4u(last));
      let q_at = (sample_row + steps) * row_lanes + head_lane;
      let y_at = (sample_row + steps) * width + head_lane;
      let rows = head * dims.T + steps;
      let l = vec4f(lse[rows.x], lse[rows.y], lse[rows.z], lse[rows.w]);
      let d = vec4f(delta[rows.x], delta[rows.y], delta[rows.z], delta[rows.w]);
      var s = mat4x4f();
      var dp = mat4x4f();
      for (var c = 0u; c < CHUNKS; c++) {
        s += scores(qkv_tile(q_at, c), qkv_tile(k_at, c));
        dp += scores(dy_tile(y_at, c), qkv_tile(v_at, c));
      }
      let p = mat4x4f(
        probabilities(s[0], l, scale, queries, key), probabilities(s[1], l, scale, queries, key + 1u),
        probabilities(s[2], l, scale, queries, key + 2u), probabilities(s[3], l, scale, queries, key + 3u),
      );
      let ds = mat4x4f(
        p[0] * (dp[0] - d) * scale, p[1] * (dp[1] - d) * scale, p[2] * (dp[2] - d) * scale, p[3] * (dp[3] - d) * scale,
      );
      var p_rows = transpose(p);
      var ds_rows = transpose(ds);
      for (var i = 0u; i < 4u; i++) {
        let row = sample_row + min(query + i, last);
        let q_row = row * row_lanes + head_lane;
        let y_row = row * width + head_lane;
        let p_i = p_rows[i];
        let ds_i = ds_rows[i];
        dk0 += outer(qkv_lane(q_row, slice), ds_i); dv0 += outer(dy_lane(y_row, slice), p_i);
        dk1 += outer(qkv_lane(q_row, slice + 1u), ds_i); dv1 += outer(dy_lane(y_row, slice + 1u), p_i);
        dk2 += outer(qkv_lane(q_row, slice + 2u), ds_i); dv2 += outer(dy_lane(y_row, slice + 2u), p_i);
        dk3 += outer(qkv_lane(q_row, slice + 3u), ds_i); dv3 += outer(dy_lane(y_row, slice + 3u), p_i);
        if (SLICE > 4u) {
          dk4 += outer(qkv_lane(q_row, slice + 4u), ds_i); dv4 += outer(dy_lane(y_row, slice + 4u), p_i);
          dk5 += outer(qkv_lane(q_row, slice + 5u), ds_i); dv5 += outer(dy_lane(y_row, slice + 5u), p_i);
          dk6 += outer(qkv_lane(q_row, slice + 6u), ds_i); dv6 += outer(dy_lane(y_row, slice + 6u), p_i);
          dk7 += outer(qkv_lane(q_row, slice + 7u), ds_i); dv7 += outer(dy_lane(y_row, slice + 7u), p_i);
        }
      }
    }
  }

  var dk = array(dk0, dk1, dk2, dk3, dk4, dk5, dk6, dk7);
  var dv = array(dv0, dv1, dv2, dv3, dv4, dv5, dv6, dv7);
  for (var c = 0u; c < min(SLICE, CHUNKS - slice); c++) {
    store(k_at, key, slice + c, dk[c]);
    store(v_at, key, slice + c, dv[c]);
  }
}
