@group(0) @binding(2) var<storage, read_write> biasGradient: array<f32>;

fn add(i: u32, sum: f32) {
  if (i < dims.elements) {
    c[i] += sum;
  } else {
    biasGradient[i - dims.elements] += sum;
  }
}
