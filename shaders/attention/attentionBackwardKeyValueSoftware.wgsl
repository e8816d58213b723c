// For software adapters, where loads are what costs: an invocation keeps its four rows' slices of k and v in private
// memory and walks over the queries one at a time, loading each once for the score and the sums. A vec4f of scores has
// an entry for each key.
var<private> k: array<Tile, SLICE>; // and dk at the end
var<private> v: array<Tile, SLICE>; // and dv at the end

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  let key_head = id.x % dims.K; // id.x is b·K + key head
  let b = id.x / dims.K;
  if (b >= dims.B || id.y >= (dims.T + 3u) / 4u) { return; }
  let key = 4u * id.y; // the longest walks start first
  let slice = first_chunk(id.z);
  let width = dims.H * CHUNKS; // lanes of a row of y
  let row_lanes = width + 2u * dims.K * CHUNKS; // lanes of a row of qkv
  let group_size = dims.H / dims.K;
  let sample_row = b * dims.T;
  let last = dims.T - 1u;
  let lanes = min(SLICE, CHUNKS - slice);
  let k_lane = width + key_head * CHUNKS;
  let v_lane = k_lane + dims.K * CHUNKS;
  let scale = dims.scale;

  for (var i = 0u; i < 4u * lanes; i++) {
    let row = (sample_row + min(key + i % 4u, last)) * row_lanes + slice + i / 4u;
    k[i / 4u][i % 4u] = load_qkv_BTED(row + k_lane);
    v[i / 4u][i % 4u] = load_qkv_BTED(row + v_lane);
  }
  var dk0 = Tile(); var dk1 = Tile(); var dk2 = Tile(); var dk3 = Tile();
  var dk4 = Tile(); var dk5 = Tile(); var dk6 = Tile(); var dk7 = Tile();
  var dv0 = Tile(); var dv1 = Tile(); var dv2 = Tile(); var dv3 = Tile();
  var dv4 = Tile(); var dv5 = Tile(); var dv6 = Tile(); var dv7 = Tile();

  for (var h = key_head * group_size; h < (key_head + 1u) * group_size; h++) {
    let head = b * dims.H + h;
    let head_lane = h * CHUNKS;
    for (var query = key; query < dims.T; query++) {
      let first_key = load_first_BT(sample_row + query);
      if (first_key > key + 3u) { break; } // no later query sees an earlier key
      let q_row = (sample_row + query) * row_lanes + head_lane;
      let y_row = (sample_row + query) * width + head_lane;
      let q0 = qkv_lane(q_row, slice); let g0 = dy_lane(y_row, slice);
      let q1 = qkv_lane(q_row, slice + 1u); let g1 = dy_lane(y_row, slice + 1u);
      let q2 = qkv_lane(q_row, slice + 2u); let g2 = dy_lane(y_row, slice + 2u);
      let q3 = qkv_lane(q_row, slice + 3u); let g3 = dy_lane(y_row, slice + 3u);
      var s = q0 * k[0] + q1 * k[1] + q2 * k[2] + q3 * k[3];
      var dp = g0 * v[0] + g1 * v[1] + g2 * v[2] + g3 * v[3];
      var q4 = Lane(); var q5 = Lane(); var q6 = Lane(); var q7 = Lane();
      var g4 = Lane(); var g5 = Lane(); var g6 = Lane(); var g7 = Lane();
      if (SLICE > 4u) {
        q4 = qkv_lane(q_row, slice + 4u); g4 = dy_lane(y_row, slice + 4u);
        q5 = qkv_lane(q_row, slice + 5u); g5 = dy_lane(y_row, slice + 5u);
        q6 = qkv_lane(q_row, slice + 6u); g6 = dy_lane(y_row, slice + 6u);
        q7 = qkv_lane(q_row, slice + 7u); g7 = dy_lane(y_row, slice + 7u);
        s += q4 * k[C4] + q5 * k[C5] + q6 * k[C6] + q7 * k[C7];
        dp += g4 * v[C4] + g5 * v[C5] + g6 * v[C6] + g7 * v[C7];
      }
      if (CHUNKS > SLICE) {
        let own = (sample_row + min(key + STEPS, vec4u(last))) * row_lanes;
        for (var c = 0u; c < CHUNKS; c++) {
          if (c < slice || c >= slice + SLICE) {
            s += load_qkv_BTED(q_row + c) * qkv_tile(own + k_lane, c);
            dp += load_dy_BTHD(y_row + c) * qkv_tile(own + v_lane, c);
          }
        }
      }
      let is_seen = (key + STEPS >= vec4u(first_key)) & (key + STEPS <= vec4u(query));
      let p = select(vec4f(0), exp(s * scale - load_lse_BHT(head * dims.T + query)), is_seen);
      let ds = p * (dp - load_delta_BHT(head * dims.T + query)) * scale;
      dk0 += outer(q0, ds); dv0 += outer(g0, p);
      dk1 += outer(q1, ds); dv1 += outer(g1, p);
      dk2 += outer(q2, ds); dv2 += outer(g2, p);
      dk3 += outer(q3, ds); dv3 += outer(g3, p);
      if (SLICE > 4u) {
        dk4 += outer(q4, ds); dv4 += outer(g4, p);
        dk5 += outer(q5, ds); dv5 += outer(g5, p);
        dk6 += outer(q6, ds); dv6 += outer(g6, p);
        dk7 += outer(q7, ds); dv7 += outer(g7, p);
      }
    }
  }

  k[0] = dk0; k[1] = dk1; k[2] = dk2; k[3] = dk3;
  v[0] = dv0; v[1] = dv1; v[2] = dv2; v[3] = dv3;
  if (SLICE > 4u) {
    k[C4] = dk4; k[C5] = dk5; k[C6] = dk6; k[C7] = dk7;
    v[C4] = dv4; v[C5] = dv5; v[C6] = dv6; v[C7] = dv7;
  }
  for (var i = 0u; i < 4u * lanes; i++) {
    let row = (sample_row + key + i % 4u) * row_lanes + slice + i / 4u;
    if (key + i % 4u < dims.T) {
      store_dqkv_BTED(row + k_lane, k[i / 4u][i % 4u]);
      store_dqkv_BTED(row + v_lane, v[i / 4u][i % 4u]);
    }
  }
}
