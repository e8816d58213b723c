// AdamW where the values themselves are what is computed with.
struct Dims { offset: u32, count: u32, decay: u32, gradient_offset: u32, moment_offset: u32 }
fn leave(index: u32, value: Lane) {}
