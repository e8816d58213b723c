// x[n] = scale·token[ids[n] − F], where that is one of R rows; below F it is past all of them. One invocation for each lane of x_NC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let row = load_ids_N(n) - dims.F;
  if (row >= dims.R) { return; }
  store_x_NC(index, dims.scale * load_token_VC(row * chunks + index % chunks));
}
