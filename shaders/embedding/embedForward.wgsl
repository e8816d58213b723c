// x[n] = token[ids[n]] + position[n mod T]. One invocation for each lane of x_NC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  store_x_NC(index, load_token_VC(load_ids_N(n) * chunks + chunk) + load_position_TC((n % dims.T) * chunks + chunk));
}
