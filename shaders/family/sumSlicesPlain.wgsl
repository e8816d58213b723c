fn add(i: u32, sum: f32) {
  c[i] += sum;
}
