// Causal attention without its T×T matrix (online softmax: Dao et al. 2022, algorithm 1). For each head, with j ≤ i:
//   s_ij = q_i·k_j/√D,   lse_i = log Σ_j exp s_ij,   y_i = Σ_j exp(s_ij − lse_i)·v_j
@group(0) @binding(1) var<storage, read_write> y: array<Lane>;
@group(0) @binding(2) var<storage, read_write> lse: array<f32>;
