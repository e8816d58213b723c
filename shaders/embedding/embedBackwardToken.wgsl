// dtoken[id] += Σ dx[n] over the rows n with that id, as sorted by sortTokens.ts. One invocation for each segment and
// lane of its row; segments past the count return at once, so the dispatch depends on N alone.
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> order: array<u32>;
@group(0) @binding(1) var<storage, read> segments: array<u32>;
@group(0) @binding(2) var<storage, read> dx: array<Lane>;
@group(0) @binding(3) var<storage, read_write> dtoken: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = id.y * groups.x * GROUP + id.x;
  let chunks = dims.C / WIDTH;
  let segment = index / chunks;
  if (segment >= min(segments[0], dims.N)) { return; }
  let chunk = index % chunks;
  let at = 1u + 3u * segment;
  let to = segments[at + 2u];
  var sum = Lane();
  for (var i = segments[at + 1u]; i < to; i++) { sum += dx[order[i] * chunks + chunk]; }
  dtoken[segments[at] * chunks + chunk] += sum;
}
