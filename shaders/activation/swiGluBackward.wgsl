// dgate = dy·up·(s + gate·s·(1 − s)) and dup = dy·gate·s with s = 1/(1 + e^(−gate)) and 1 − s = e^(−gate)·s: no
// cancellation. One invocation for each lane of dy_NI.
struct Dims { N: u32, I: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> dy: array<Lane>;
@group(0) @binding(2) var<storage, read_write> dx: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.I / WIDTH;
  let n = index / chunks;
  if (n >= dims.N) { return; }
  let at = n * 2u * chunks + index % chunks;
  let gate = x[at];
  let g = dy[index];
  let e = exp_minus(gate);
  let s = 1.0 / (1.0 + e);
  dx[at] = g * x[at + chunks] * (s + gate * (e * s) * s);
  dx[at + chunks] = g * gate * s;
}
