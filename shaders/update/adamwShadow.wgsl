// AdamW that leaves each new value in a shadow too, which the products read: halves, where the values are float32 masters.
fn leave(index: u32, value: Lane) { store_shadow(dims.shadowOffset / WIDTH + index, value); }
