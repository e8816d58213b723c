// dweight[c] += Σ_n dy[n][c]·x̂[n][c] and dbias[c] += Σ_n dy[n][c], with x̂ = (x − mean)·r.
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<vec2f>;
@group(0) @binding(2) var<storage, read> dy: array<Lane>;
@group(0) @binding(3) var<storage, read_write> dweight: array<Lane>;
@group(0) @binding(4) var<storage, read_write> dbias: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

struct Sum { weight: Lane, bias: Lane }
fn sum_of(c: u32, first: u32, step: u32) -> Sum {
  let chunks = dims.C / WIDTH;
  var sum = Sum();
  for (var n = first; n < dims.N; n += step) {
    let s = stat[n];
    let g = dy[n * chunks + c];
    sum.weight += g * ((x[n * chunks + c] - s.x) * s.y);
    sum.bias += g;
  }
  return sum;
}
fn term_of(c: u32, n: u32) -> Sum {
  let i = n * (dims.C / WIDTH) + c;
  let s = stat[n];
  let g = dy[i];
  return Sum(g * ((x[i] - s.x) * s.y), g);
}
fn plus(a: Sum, b: Sum) -> Sum { return Sum(a.weight + b.weight, a.bias + b.bias); }
fn add_to(c: u32, sum: Sum) {
  dweight[c] += sum.weight;
  dbias[c] += sum.bias;
}
