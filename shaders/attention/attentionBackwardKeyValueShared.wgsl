// Backward of causal attention, the keys' and values' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i),
// ds_ij = p_ij·(dy_i·v_j − δ_i) and i ≥ j:
//   dk_j = scale·Σ_i ds_ij·q_i,   dv_j = Σ_i p_ij·dy_i,   summed over the heads of queries that read this head of keys

// Four rows of a tensor at lane `chunk` after each row's start.
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_dy_BTHD(rows.x + chunk), load_dy_BTHD(rows.y + chunk),
    load_dy_BTHD(rows.z + chunk), load_dy_BTHD(rows.w + chunk),
  );
}
// One lane, zero past the head's width: the last slice may be shorter than the others.
fn dy_lane(row: u32, chunk: u32) -> Lane {
  var lane = Lane();
  if (chunk < CHUNKS) { lane = load_dy_BTHD(row + chunk); }
  return lane;
}
