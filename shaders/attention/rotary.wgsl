// Turns each pair (x[d], x[d + D/2]) of the first H heads of a row, in place:
//   (a, b) → (a·cos − b·sin, b·cos + a·sin),   with sign·sin for sin. One invocation for each lane of pairs.
struct Dims { N: u32, T: u32, H: u32, D: u32, S: u32, sign: f32 }
@group(0) @binding(0) var<storage, read> table: array<Lane>;
@group(0) @binding(1) var<storage, read_write> x: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.D / 2u / WIDTH; // lanes of half a head
  let head = index / chunks; // n·H + h
  let n = head / dims.H;
  if (n >= dims.N) { return; }
  let chunk = index % chunks;
  let place = (n % dims.T) * 2u * chunks + chunk;
  let cosine = table[place];
  let sine = dims.sign * table[place + chunks];
  let at = n * (dims.S / WIDTH) + (head % dims.H) * 2u * chunks + chunk;
  let a = x[at];
  let b = x[at + chunks];
  x[at] = a * cosine - b * sine;
  x[at + chunks] = b * cosine + a * sine;
}
