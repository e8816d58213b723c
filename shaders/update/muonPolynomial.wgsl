// What a Newton–Schulz step multiplies X by, of M = X·Xᵀ [S, S] and its square: square ← a·1 + b·M + c·square.
fn item(i: u32) {
  if (i >= dims.S * dims.S) { return; }
  let one = select(0.0, FACTOR_A, i % (dims.S + 1u) == 0u);
  store_square(i, one + FACTOR_B * load_m(i) + FACTOR_C * load_square(i));
}
