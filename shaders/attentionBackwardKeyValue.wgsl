// Backward of causal attention, the keys' and values' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i),
// ds_ij = p_ij·(dy_i·v_j − δ_i) and i ≥ j:
//   dk_j = Σ_i ds_ij·q_i/√D,   dv_j = Σ_i p_ij·dy_i
//
// Cut as in attentionForward.wgsl, the other way round: four keys and a slice of the head's width an invocation, walking
// over the queries. Matrices of scores have a column for each key and a row for each query.
struct Dims { B: u32, T: u32, H: u32, D: u32 }
@group(0) @binding(0) var<storage, read> qkv: array<Lane>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read> delta: array<f32>;
@group(0) @binding(3) var<storage, read> dy: array<Lane>;
@group(0) @binding(4) var<storage, read_write> dqkv: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Four rows of a tensor at lane `chunk` after each row's start; slice_… is zero past the head's width.
fn qkv_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(qkv[rows.x + chunk], qkv[rows.y + chunk], qkv[rows.z + chunk], qkv[rows.w + chunk]);
}
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(dy[rows.x + chunk], dy[rows.y + chunk], dy[rows.z + chunk], dy[rows.w + chunk]);
}
fn slice_qkv(rows: vec4u, chunk: u32) -> Tile {
  var tile = Tile();
  if (chunk < CHUNKS) { tile = qkv_tile(rows, chunk); }
  return tile;
}
fn slice_dy(rows: vec4u, chunk: u32) -> Tile {
  var tile = Tile();
  if (chunk < CHUNKS) { tile = dy_tile(rows, chunk); }
  return tile;
}
fn store(at: vec4u, key: u32, chunk: u32, tile: Tile) {
  if (chunk >= CHUNKS) { return; }
  dqkv[at.x + chunk] = tile[0];
  if (key + 1u < dims.T) { dqkv[at.y + chunk] = tile[1]; }
  if (key + 2u < dims.T) { dqkv[at.z + chunk] = tile[2]; }
  if (key + 3u < dims.T) { dqkv[at.w + chunk] = tile[3]; }
}
// The column of p of one key: 0 for the queries before it and those past the end.
fn probabilities(s: vec4f, lse_i: vec4f, scale: f32, queries: vec4u, key: u32) -> vec4f {
  return select(vec4f(0), exp(s * scale - lse_i), (queries >= vec4u(key)) & (queries < vec4u(dims.T)));
}

@compute @workgroup_size(HEADS, TILES)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let head = id.x; // b·H + h
  if (head >= dims.B * dims.H || id.y >= (dims.T + 3u) / 4u) { return; }
  let key = 4u * id.y; // the longest walks start first
  let slice = id.z * SLICE;
  let width = dims.H * CHUNKS; // lanes of C
  let sample_row = (head / dims.H) * dims.T;
  let head_lane = (head % dims.H) * CHUNKS;
  let last = vec4u(dims.T - 1u);
  let k_at = (sample_row + min(key + STEPS, last)) * (3u * width) + head_lane + width;
  let v_at = k_at + width;
  let scale = 1.0 / sqrt(f32(dims.D));

  var k0: Tile; var k1: Tile; var k2: Tile; var k3: Tile; var k4: Tile; var k5: Tile; var k6: Tile; var k7: Tile;
  var v0: Tile; var v1: Tile; var v2: Tile; var v3: Tile; var v4: Tile; var v5: Tile; var v6: Tile; var v7: Tile;
  if (HOLD) {
    k0 = slice_qkv(k_at, slice); v0 = slice_qkv(v_at, slice);
    k1 = slice_qkv(k_at, slice + 1u); v1 = slice_qkv(v_at, slice + 1u);
    k2 = slice_qkv(k_at, slice + 2u); v2 = slice_qkv(v_at, slice + 2u);
    k3 = slice_qkv(k_at, slice + 3u); v3 = slice_qkv(v_at, slice + 3u);
    if (SLICE > 4u) {
      k4 = slice_qkv(k_at, slice + 4u); v4 = slice_qkv(v_at, slice + 4u);
      k5 = slice_qkv(k_at, slice + 5u); v5 = slice_qkv(v_at, slice + 5u);
      k6 = slice_qkv(k_at, slice + 6u); v6 = slice_qkv(v_at, slice + 6u);
      k7 = slice_qkv(k_at, slice + 7u); v7 = slice_qkv(v_at, slice + 7u);
    }
  }
  var dk0 = Tile(); var dk1 = Tile(); var dk2 = Tile(); var dk3 = Tile();
  var dk4 = Tile(); var dk5 = Tile(); var dk6 = Tile(); var dk7 = Tile();
  var dv0 = Tile(); var dv1 = Tile(); var dv2 = Tile(); var dv3 = Tile();
  var dv4 = Tile(); var dv5 = Tile(); var dv6 = Tile(); var dv7 = Tile();

  for (var query = key; query < dims.T; query += 4u) {
    let queries = query + STEPS;
    let steps = min(queries, last);
    let q_at = (sample_row + steps) * (3u * width) + head_lane;
    let y_at = (sample_row + steps) * width + head_lane;
    let rows = head * dims.T + steps;
    let l = vec4f(lse[rows.x], lse[rows.y], lse[rows.z], lse[rows.w]);
    let d = vec4f(delta[rows.x], delta[rows.y], delta[rows.z], delta[rows.w]);
    var s = mat4x4f();
    var dp = mat4x4f();
    if (!HOLD || CHUNKS > SLICE) {
      for (var c = 0u; c < CHUNKS; c++) {
        if (HOLD && c >= slice && c < slice + SLICE) { continue; }
        s += scores(qkv_tile(q_at, c), qkv_tile(k_at, c));
        dp += scores(dy_tile(y_at, c), qkv_tile(v_at, c));
      }
    }
    let q0 = slice_qkv(q_at, slice); let q1 = slice_qkv(q_at, slice + 1u);
    let q2 = slice_qkv(q_at, slice + 2u); let q3 = slice_qkv(q_at, slice + 3u);
    let g0 = slice_dy(y_at, slice); let g1 = slice_dy(y_at, slice + 1u);
    let g2 = slice_dy(y_at, slice + 2u); let g3 = slice_dy(y_at, slice + 3u);
    var q4: Tile; var q5: Tile; var q6: Tile; var q7: Tile; var g4: Tile; var g5: Tile; var g6: Tile; var g7: Tile;
    if (SLICE > 4u) {
      q4 = slice_qkv(q_at, slice + 4u); q5 = slice_qkv(q_at, slice + 5u);
      q6 = slice_qkv(q_at, slice + 6u); q7 = slice_qkv(q_at, slice + 7u);
      g4 = slice_dy(y_at, slice + 4u); g5 = slice_dy(y_at, slice + 5u);
      g6 = slice_dy(y_at, slice + 6u); g7 = slice_dy(y_at, slice + 7u);
    }
    if (HOLD) {
      s += scores(q0, k0) + scores(q1, k1);
      s += scores(q2, k2) + scores(q3, k3);
      dp += scores(g0, v0) + scores(g1, v1);
      dp += scores(g2, v2) + scores(g3, v3);
      if (SLICE > 4u) {
        s += scores(q4, k4) + scores(q5, k5);
        s += scores(q6, k6) + scores(q7, k7);
        dp += scores(g4, v4) + scores(g5, v5);
        dp += scores(g6, v6) + scores(g7, v7);
      }
    }
    let p = mat4x4f(
      probabilities(s[0], l, scale, queries, key), probabilities(s[1], l, scale, queries, key + 1u),
      probabilities(s[2], l, scale, queries, key + 2u), probabilities(s[3], l, scale, queries, key + 3u),
    );
    let ds = mat4x4f(
      p[0] * (dp[0] - d) * scale, p[1] * (dp[1] - d) * scale, p[2] * (dp[2] - d) * scale, p[3] * (dp[3] - d) * scale,
    );
    dk0 += q0 * ds; dk1 += q1 * ds; dk2 += q2 * ds; dk3 += q3 * ds;
    dv0 += g0 * p; dv1 += g1 * p; dv2 += g2 * p; dv3 += g3 * p;
    if (SLICE > 4u) {
      dk4 += q4 * ds; dk5 += q5 * ds; dk6 += q6 * ds; dk7 += q7 * ds;
      dv4 += g4 * p; dv5 += g5 * p; dv6 += g6 * p; dv7 += g7 * p;
    }
  }

  store(k_at, key, slice, dk0); store(k_at, key, slice + 1u, dk1);
  store(k_at, key, slice + 2u, dk2); store(k_at, key, slice + 3u, dk3);
  store(v_at, key, slice, dv0); store(v_at, key, slice + 1u, dv1);
  store(v_at, key, slice + 2u, dv2); store(v_at, key, slice + 3u, dv3);
  if (SLICE > 4u) {
    store(k_at, key, slice + 4u, dk4); store(k_at, key, slice + 5u, dk5);
    store(k_at, key, slice + 6u, dk6); store(k_at, key, slice + 7u, dk7);
    store(v_at, key, slice + 4u, dv4); store(v_at, key, slice + 5u, dv5);
    store(v_at, key, slice + 6u, dv6); store(v_at, key, slice + 7u, dv7);
  }
}
