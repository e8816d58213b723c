// dbias[c] += Σ_n dy[n][c].

alias Sum = Lane;
fn term_of(c: u32, n: u32) -> Sum { return load_dy_NC(n * (dims.C / WIDTH) + c); }
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { store_dbias_C(c, load_dbias_C(c) + sum); }
