// Backward of causal attention, the queries' part (Dao et al. 2022, algorithm 4). With p_ij = exp(s_ij − lse_i), j ≤ i:
//   δ_i = dy_i·y_i (kept for the other part),   ds_ij = p_ij·(dy_i·v_j − δ_i),   dq_i = Σ_j ds_ij·k_j/√D
@group(0) @binding(1) var<storage, read> y: array<Lane>;
@group(0) @binding(2) var<storage, read> lse: array<f32>;
@group(0) @binding(3) var<storage, read> dy: array<Lane>;
@group(0) @binding(4) var<storage, read_write> delta: array<f32>;
@group(0) @binding(5) var<storage, read_write> dqkv: array<Lane>;

// Four rows of a tensor at lane `chunk` after each row's start.
fn y_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(y[rows.x + chunk], y[rows.y + chunk], y[rows.z + chunk], y[rows.w + chunk]);
}
fn dy_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(dy[rows.x + chunk], dy[rows.y + chunk], dy[rows.z + chunk], dy[rows.w + chunk]);
}
