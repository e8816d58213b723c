// Muon that leaves each new value in a shadow too, which the products read: halves, where the values are float32 masters.
fn leave(inside: u32, value: f32) { store_shadow(dims.shadowOffset + inside, value); }
