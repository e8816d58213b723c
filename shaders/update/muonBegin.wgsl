// What Muon orthogonalises of one matrix: with g = grad·clipScale
//   m ← µ·m + (1 − µ)·g,   x = µ·m + (1 − µ)·g
// x has S rows of L elements. Element (row, column) of it lies row·rowStep + column·columnStep elements behind the
// matrix's first one, so a matrix that stands upright is turned, and one among others in its tensor is taken out.
fn item(i: u32) {
  if (i >= dims.S * dims.L) { return; }
  let inside = (i / dims.L) * dims.rowStep + (i % dims.L) * dims.columnStep;
  let at = dims.momentOffset + inside;
  let g = load_grads(dims.gradientOffset + inside) * load_scalars(1u);
  let rest = 1.0 - dims.momentum;
  let m_new = dims.momentum * load_m(at) + rest * g;
  store_m(at, m_new);
  store_x(i, dims.momentum * m_new + rest * g);
}
