// The last of a matrix's update by Muon: w ← w·(1 − lr·weightDecay) − lr·scale·x. x has S rows of L elements, which lie in
// the matrix as muonBegin.wgsl says. `leave` stands in muonApplyPlain.wgsl or muonApplyShadow.wgsl.
fn item(i: u32) {
  if (i >= dims.S * dims.L) { return; }
  let inside = (i / dims.L) * dims.rowStep + (i % dims.L) * dims.columnStep;
  let at = dims.offset + inside;
  let learning_rate = load_scalars(0u);
  let kept = load_values(at) * (1.0 - learning_rate * load_scalars(7u));
  let value = kept - learning_rate * dims.scale * load_x(i);
  store_values(at, value);
  leave(inside, value);
}
