// x[n] = token[ids[n]]. One invocation for each lane of x_NC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  store_x_NC(index, load_token_VC(load_ids_N(n) * chunks + index % chunks));
}
