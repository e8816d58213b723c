// AdamW where the values themselves are what is computed with.
fn leave(index: u32, value: Lane) {}
