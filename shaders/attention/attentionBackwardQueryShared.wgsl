// Backward of causal attention, the queries' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i), j ≤ i:
//   δ_i = dy_i·y_i (kept for the other part),   ds_ij = p_ij·(dy_i·v_j − δ_i),   dq_i = scale·Σ_j ds_ij·k_j

// Four rows of a tensor at lane `chunk` after each row's start.
fn y_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_y_BTHD(rows.x + chunk), load_y_BTHD(rows.y + chunk),
    load_y_BTHD(rows.z + chunk), load_y_BTHD(rows.w + chunk),
  );
}
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_dy_BTHD(rows.x + chunk), load_dy_BTHD(rows.y + chunk),
    load_dy_BTHD(rows.z + chunk), load_dy_BTHD(rows.w + chunk),
  );
}
