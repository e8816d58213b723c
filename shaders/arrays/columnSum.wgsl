// dbias[c] += Σ_n dy[n][c].
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> dy: array<Lane>;
@group(0) @binding(1) var<storage, read_write> dbias: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

alias Sum = Lane;
fn sum_of(c: u32, first: u32, step: u32) -> Sum {
  let chunks = dims.C / WIDTH;
  var sum = Sum();
  for (var n = first; n < dims.N; n += step) { sum += dy[n * chunks + c]; }
  return sum;
}
fn term_of(c: u32, n: u32) -> Sum { return dy[n * (dims.C / WIDTH) + c]; }
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { dbias[c] += sum; }
