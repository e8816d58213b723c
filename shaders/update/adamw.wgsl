// AdamW with decoupled decay, as torch.optim.AdamW (Loshchilov & Hutter 2019, algorithm 2). For elements
// [offset, offset + count) of values, as many of grads from gradientOffset on, and of m and v from momentOffset on
// (decay: 1 in the ranges from0 to to0 … of the elements, else 0):
//   g = grad·clipScale,   p ← p·(1 − lr·weightDecay·decay)
//   m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   p ← p − lr·(m/c₁)/(√(v/c₂) + ε)
struct Scalars {
  learning_rate: f32, clip_scale: f32, beta1: f32, beta2: f32,
  epsilon: f32, correction1: f32, correction2: f32, weight_decay: f32,
}
@group(0) @binding(0) var<storage, read_write> values: array<Lane>;
@group(0) @binding(1) var<storage, read> grads: array<Lane>;
@group(0) @binding(2) var<storage, read_write> m: array<Lane>;
@group(0) @binding(3) var<storage, read_write> v: array<Lane>;
@group(0) @binding(4) var<storage, read> scalars: Scalars;
@group(1) @binding(0) var<uniform> dims: Dims;
// `struct Dims` and `fn leave` stand in adamwPlain.wgsl or adamwShadow.wgsl.

// A lane is in a range or it is not.
fn decays(index: u32) -> bool {
  let i = index * WIDTH;
  return (dims.from0 <= i && i < dims.to0) || (dims.from1 <= i && i < dims.to1)
    || (dims.from2 <= i && i < dims.to2) || (dims.from3 <= i && i < dims.to3);
}

// One invocation a lane.
@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  if (index >= dims.count / WIDTH) { return; }
  let at = dims.offset / WIDTH + index;
  let moment_at = dims.moment_offset / WIDTH + index;
  let s = scalars;
  let step = s.learning_rate / s.correction1;
  let g = grads[dims.gradient_offset / WIDTH + index] * s.clip_scale;
  let decayed = values[at] * (1.0 - s.learning_rate * s.weight_decay * select(0.0, 1.0, decays(index)));
  let m_new = s.beta1 * m[moment_at] + (1.0 - s.beta1) * g;
  let v_new = s.beta2 * v[moment_at] + (1.0 - s.beta2) * (g * g);
  m[moment_at] = m_new;
  v[moment_at] = v_new;
  let value = decayed - step * m_new / (sqrt(v_new * (1.0 / s.correction2)) + s.epsilon);
  values[at] = value;
  leave(index, value);
}
