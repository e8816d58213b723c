// dbias[k] += Σ_n dy[n][k].
struct Dims { N: u32, K: u32 }
@group(0) @binding(0) var<storage, read> dy: array<Lane>;
@group(0) @binding(1) var<storage, read_write> dbias: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Rows `first`, first + step, … of lane k.
fn sum_of(k: u32, first: u32, step: u32) -> Lane {
  let chunks = dims.K / WIDTH;
  var sum = Lane();
  for (var n = first; n < dims.N; n += step) { sum += dy[n * chunks + k]; }
  return sum;
}

// One invocation a lane of the row.
@compute @workgroup_size(ROWS)
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= dims.K / WIDTH) { return; }
  dbias[id.x] += sum_of(id.x, 0u, 1u);
}

// One workgroup for COLUMNS lanes of the row; the rows are dealt to its PARTS, whose sums are then added in order.
const COLUMNS = 8u;
const PARTS = GROUP / COLUMNS;
var<workgroup> parts: array<Lane, GROUP>;

@compute @workgroup_size(COLUMNS, PARTS)
fn column_groups(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u,
  @builtin(local_invocation_index) index: u32,
) {
  let k = group.x * COLUMNS + local.x;
  let inside = k < dims.K / WIDTH;
  if (inside) { parts[index] = sum_of(k, local.y, PARTS); }
  workgroupBarrier();
  if (!inside || local.y != 0u) { return; }
  var sum = Lane();
  for (var part = 0u; part < PARTS; part++) { sum += parts[part * COLUMNS + local.x]; }
  dbias[k] += sum;
}
