// Adds the sums of all slices, in order, to what they are slices of (slices.ts). `add` says what an element belongs to.

fn item(i: u32) {
  if (i >= dims.floats) { return; }
  var sum = load_slices(i);
  for (var slice = 1u; slice < dims.count; slice++) {
    sum += load_slices(slice * dims.floats + i);
  }
  add(i, sum);
}
