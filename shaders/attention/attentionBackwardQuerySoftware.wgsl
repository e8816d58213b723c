// For software adapters, where loads are what costs: an invocation keeps its four queries' slices of q and dy in private
// memory and walks over the keys one at a time, loading each once for the score and the sum. A vec4f of scores has an
// entry for each query.
var<private> q: array<Tile, SLICE>; // and dq at the end
var<private> g: array<Tile, SLICE>; // dy

fn run(group: vec3u, groups: vec3u, local: u32) {
  let id = vec3u(group.x * HEADS + local, group.yz);
  if (!has_queries(id)) { return; }
  let at = queries_of(id);
  let slice = first_chunk(id.z);

  var d = vec4f(0);
  for (var i = 0u; i < 4u * CHUNKS; i++) {
    let row = at.sample_row + min(at.first + i % 4u, at.last);
    let lane = at.head_lane + i / 4u;
    let dy_lane = load_dy_BTHD(row * at.width + lane);
    d += select(vec4f(0), vec4f(total(dy_lane * load_y_BTHD(row * at.width + lane))), STEPS == vec4u(i % 4u));
    let c = i / 4u - slice;
    if (c < SLICE) {
      q[c][i % 4u] = load_qkv_BTED(row * at.row_lanes + lane);
      g[c][i % 4u] = dy_lane;
    }
  }
  let rows = at.head * dims.T + min(at.first + STEPS, vec4u(at.last));
  let l = vec4f(load_lse_BHT(rows.x), load_lse_BHT(rows.y), load_lse_BHT(rows.z), load_lse_BHT(rows.w));
  if (slice == 0u) {
    for (var i = 0u; i < 4u; i++) {
      if (at.first + i < dims.T) { store_delta_BHT(at.head * dims.T + at.first + i, d[i]); }
    }
  }
  var dq0 = Tile(); var dq1 = Tile(); var dq2 = Tile(); var dq3 = Tile();
  var dq4 = Tile(); var dq5 = Tile(); var dq6 = Tile(); var dq7 = Tile();

  for (var key = at.firsts.x; key <= min(at.first + 3u, at.last); key++) {
    let k_row = (at.sample_row + key) * at.row_lanes + at.k_lane;
    let v_row = k_row + dims.K * CHUNKS;
    let k0 = qkv_lane(k_row, slice);
    let k1 = qkv_lane(k_row, slice + 1u);
    let k2 = qkv_lane(k_row, slice + 2u);
    let k3 = qkv_lane(k_row, slice + 3u);
    var s = k0 * q[0] + k1 * q[1] + k2 * q[2] + k3 * q[3];
    var dp = qkv_lane(v_row, slice) * g[0] + qkv_lane(v_row, slice + 1u) * g[1];
    dp += qkv_lane(v_row, slice + 2u) * g[2] + qkv_lane(v_row, slice + 3u) * g[3];
    var k4 = Lane(); var k5 = Lane(); var k6 = Lane(); var k7 = Lane();
    if (SLICE > 4u) {
      k4 = qkv_lane(k_row, slice + 4u);
      k5 = qkv_lane(k_row, slice + 5u);
      k6 = qkv_lane(k_row, slice + 6u);
      k7 = qkv_lane(k_row, slice + 7u);
      s += k4 * q[C4] + k5 * q[C5] + k6 * q[C6] + k7 * q[C7];
      dp += qkv_lane(v_row, slice + 4u) * g[C4] + qkv_lane(v_row, slice + 5u) * g[C5];
      dp += qkv_lane(v_row, slice + 6u) * g[C6] + qkv_lane(v_row, slice + 7u) * g[C7];
    }
    if (CHUNKS > SLICE) {
      let steps = at.sample_row + min(at.first + STEPS, vec4u(at.last));
      for (var c = 0u; c < CHUNKS; c++) {
        if (c < slice || c >= slice + SLICE) {
          s += load_qkv_BTED(k_row + c) * qkv_tile(steps * at.row_lanes + at.head_lane, c);
          dp += load_qkv_BTED(v_row + c) * dy_tile(steps * at.width + at.head_lane, c);
        }
      }
    }
    let p = select(vec4f(0), exp(s * at.scale - l), seen_by(at, key));
    let ds = p * (dp - d) * at.scale;
    dq0 += outer(k0, ds); dq1 += outer(k1, ds); dq2 += outer(k2, ds); dq3 += outer(k3, ds);
    if (SLICE > 4u) {
      dq4 += outer(k4, ds); dq5 += outer(k5, ds); dq6 += outer(k6, ds); dq7 += outer(k7, ds);
    }
  }

  q[0] = dq0; q[1] = dq1; q[2] = dq2; q[3] = dq3;
  if (SLICE > 4u) { q[C4] = dq4; q[C5] = dq5; q[C6] = dq6; q[C7] = dq7; }
  for (var i = 0u; i < 4u * min(SLICE, CHUNKS - slice); i++) {
    let row = at.first + i % 4u;
    let lane = at.head_lane + slice + i / 4u;
    if (row < dims.T) { store_dqkv_BTED((at.sample_row + row) * at.row_lanes + lane, q[i / 4u][i % 4u]); }
  }
}
