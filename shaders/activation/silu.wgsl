// e^(−x), clamped where silu(x) is x or 0 to the last bit, so that it stays below the largest f32.
fn exp_minus(x: Lane) -> Lane { return exp(-clamp(x, Lane(-80.0), Lane(80.0))); }
