fn add(i: u32, sum: f32) {
  store_c_MN(i, load_c_MN(i) + sum);
}
