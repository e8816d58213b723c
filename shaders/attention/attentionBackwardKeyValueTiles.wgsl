// For GPUs: own rows are keys and values, other ones the queries of all heads that read them (attentionTiles.wgsl).

fn store(rows: vec4u, chunk: u32, tile: Tile, at: vec4u) {
  if (chunk >= CHUNKS) { return; }
  if (rows.x < dims.T) { store_dqkv_BTED(at.x + chunk, tile[0]); }
  if (rows.y < dims.T) { store_dqkv_BTED(at.y + chunk, tile[1]); }
  if (rows.z < dims.T) { store_dqkv_BTED(at.z + chunk, tile[2]); }
  if (rows.w < dims.T) { store_dqkv_BTED(at.w + chunk, tile[3]); }
}
// Whether the queries from this row on see none of a tile of keys: rows see no earlier key than those before them.
fn is_past(first: u32, row: u32) -> bool { return load_first_BT(row) >= first + TILE; }
// p of the scores; queries past the end see no key. `rows`: where the queries' lse lies. `firsts`: of the keys that they see.
fn p_of(s: mat4x4f, keys: vec4u, queries: vec4u, rows: vec4u, firsts: vec4u) -> mat4x4f {
  let scale = dims.scale;
  let seeing = select(vec4u(0), queries + 1u, queries < vec4u(dims.T));
  return mat4x4f(
    select(vec4f(0), exp(s[0] * scale - load_lse_BHT(rows.x)), (keys >= vec4u(firsts.x)) & (keys < vec4u(seeing.x))),
    select(vec4f(0), exp(s[1] * scale - load_lse_BHT(rows.y)), (keys >= vec4u(firsts.y)) & (keys < vec4u(seeing.y))),
    select(vec4f(0), exp(s[2] * scale - load_lse_BHT(rows.z)), (keys >= vec4u(firsts.z)) & (keys < vec4u(seeing.z))),
    select(vec4f(0), exp(s[3] * scale - load_lse_BHT(rows.w)), (keys >= vec4u(firsts.w)) & (keys < vec4u(seeing.w))),
  );
}
// The weights that were kept are p; from here on they are ds.
fn keep_ds(at: Place, dp: mat4x4f, rows: vec4u) {
  let scale = dims.scale;
  let p = kept_weights(at);
  keep_weights(at, mat4x4f(
    p[0] * (dp[0] - load_delta_BHT(rows.x)) * scale, p[1] * (dp[1] - load_delta_BHT(rows.y)) * scale,
    p[2] * (dp[2] - load_delta_BHT(rows.z)) * scale, p[3] * (dp[3] - load_delta_BHT(rows.w)) * scale,
  ));
}
