fn add(i: u32, sum: f32) {
  if (i < dims.elements) {
    store_c_MN(i, load_c_MN(i) + sum);
  } else {
    store_dbias_N(i - dims.elements, load_dbias_N(i - dims.elements) + sum);
  }
}
