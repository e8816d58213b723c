// AdamW where the values themselves are what is computed with.
struct Dims {
  offset: u32, count: u32, gradient_offset: u32, moment_offset: u32,
  from0: u32, to0: u32, from1: u32, to1: u32, from2: u32, to2: u32, from3: u32, to3: u32,
}
fn leave(index: u32, value: Lane) {}
