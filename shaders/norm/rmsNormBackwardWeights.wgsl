// dweight[c] += Σ_n dy[n][c]·x[n][c]·r[n].
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<Lane>;
@group(0) @binding(3) var<storage, read_write> dweight: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

alias Sum = Lane;
fn sum_of(c: u32, first: u32, step: u32) -> Sum {
  let chunks = dims.C / WIDTH;
  var sum = Sum();
  for (var n = first; n < dims.N; n += step) { sum += dy[n * chunks + c] * (x[n * chunks + c] * stat[n]); }
  return sum;
}
fn term_of(c: u32, n: u32) -> Sum {
  let i = n * (dims.C / WIDTH) + c;
  return dy[i] * (x[i] * stat[n]);
}
fn plus(a: Sum, b: Sum) -> Sum { return a + b; }
fn add_to(c: u32, sum: Sum) { dweight[c] += sum; }
