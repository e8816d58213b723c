// x[n] = token[ids[n] − F] + position[n mod T − first[n]], where that is one of R rows; below F it is past all of them. One invocation for each lane of x_NC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let row = load_ids_N(n) - dims.F;
  if (row >= dims.R) { return; }
  let chunk = index % chunks;
  store_x_NC(index, load_token_VC(row * chunks + chunk) + load_position_TC((n % dims.T - load_first_N(n)) * chunks + chunk));
}
