fn add(i: u32, sum: f32) {
  store_c_MN(i, sum + select(0.0, load_c_MN(i), dims.accumulate == 1u));
}
