// dposition[t] += Σ_b dx[b·T + t]. One invocation for each lane of dposition_TC.

fn item(index: u32) {
  let chunks = dims.C / WIDTH;
  if (index >= dims.T * chunks) { return; }
  var sum = Lane();
  for (var i = index; i < dims.N * chunks; i += dims.T * chunks) { sum += load_dx_NC(i); }
  store_dposition_TC(index, load_dposition_TC(index) + sum);
}
