// dweight[c] += Σ_n dy[n][c]·x[n][c]·r[n].
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<Lane>;
@group(0) @binding(3) var<storage, read_write> dweight: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

// Rows `first`, first + step, … of lane c.
fn sum_of(c: u32, first: u32, step: u32) -> Lane {
  let chunks = dims.C / WIDTH;
  var sum = Lane();
  for (var n = first; n < dims.N; n += step) { sum += dy[n * chunks + c] * (x[n * chunks + c] * stat[n]); }
  return sum;
}

// One invocation a lane of the row.
@compute @workgroup_size(ROWS)
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= dims.C / WIDTH) { return; }
  dweight[id.x] += sum_of(id.x, 0u, 1u);
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
  let c = group.x * COLUMNS + local.x;
  let inside = c < dims.C / WIDTH;
  if (inside) { parts[index] = sum_of(c, local.y, PARTS); }
  workgroupBarrier();
  if (!inside || local.y != 0u) { return; }
  var sum = Lane();
  for (var part = 0u; part < PARTS; part++) { sum += parts[part * COLUMNS + local.x]; }
  dweight[c] += sum;
}
