// AdamW with decoupled decay, as torch.optim.AdamW (Loshchilov & Hutter 2019, algorithm 2). For elements
// [offset, offset + count) of values, as many of grads from gradientOffset on, and of m and v from momentOffset on
// (decay: 1 in the ranges from0 to to0 … of the elements, else 0):
//   g = grad·clipScale,   p ← p·(1 − lr·weightDecay·decay)
//   m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   p ← p − lr·(m/c₁)/(√(v/c₂) + ε)
// `leave` stands in adamwPlain.wgsl or adamwShadow.wgsl.

// A lane is in a range or it is not.
fn decays(index: u32) -> bool {
  let i = index * WIDTH;
  return (dims.from0 <= i && i < dims.to0) || (dims.from1 <= i && i < dims.to1)
    || (dims.from2 <= i && i < dims.to2) || (dims.from3 <= i && i < dims.to3);
}

// One invocation a lane.
fn item(index: u32) {
  if (index >= dims.count / WIDTH) { return; }
  let at = dims.offset / WIDTH + index;
  let moment_at = dims.momentOffset / WIDTH + index;
  let learning_rate = load_scalars(0u);
  let clip_scale = load_scalars(1u);
  let beta1 = load_scalars(2u);
  let beta2 = load_scalars(3u);
  let epsilon = load_scalars(4u);
  let correction1 = load_scalars(5u);
  let correction2 = load_scalars(6u);
  let weight_decay = load_scalars(7u);
  let step = learning_rate / correction1;
  let g = load_grads(dims.gradientOffset / WIDTH + index) * clip_scale;
  let decayed = load_values(at) * (1.0 - learning_rate * weight_decay * select(0.0, 1.0, decays(index)));
  let m_new = beta1 * load_m(moment_at) + (1.0 - beta1) * g;
  let v_new = beta2 * load_v(moment_at) + (1.0 - beta2) * (g * g);
  store_m(moment_at, m_new);
  store_v(moment_at, v_new);
  let value = decayed - step * m_new / (sqrt(v_new * (1.0 / correction2)) + epsilon);
  store_values(at, value);
  leave(index, value);
}
