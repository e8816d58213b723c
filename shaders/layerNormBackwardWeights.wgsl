// dweight[c] += Σ_n dy[n][c]·x̂[n][c] and dbias[c] += Σ_n dy[n][c], with x̂ = (x − mean)·r.
struct Dims { N: u32, C: u32 }
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> stat: array<vec2f>;
@group(0) @binding(2) var<storage, read> dy: array<Lane>;
@group(0) @binding(3) var<storage, read_write> dweight: array<Lane>;
@group(0) @binding(4) var<storage, read_write> dbias: array<Lane>;
@group(1) @binding(0) var<uniform> dims: Dims;

struct Sums { weight: Lane, bias: Lane }

// Rows `first`, first + step, … of lane c.
fn sums_of(c: u32, first: u32, step: u32) -> Sums {
  let chunks = dims.C / WIDTH;
  var sums = Sums();
  for (var n = first; n < dims.N; n += step) {
    let s = stat[n];
    let g = dy[n * chunks + c];
    sums.weight += g * ((x[n * chunks + c] - s.x) * s.y);
    sums.bias += g;
  }
  return sums;
}

// One invocation a lane of the row.
@compute @workgroup_size(ROWS)
fn columns(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= dims.C / WIDTH) { return; }
  let sums = sums_of(id.x, 0u, 1u);
  dweight[id.x] += sums.weight;
  dbias[id.x] += sums.bias;
}

// One workgroup for COLUMNS lanes of the row; the rows are dealt to its PARTS, whose sums are then added in order.
const COLUMNS = 8u;
const PARTS = GROUP / COLUMNS;
var<workgroup> parts: array<Sums, GROUP>;

@compute @workgroup_size(COLUMNS, PARTS)
fn column_groups(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u,
  @builtin(local_invocation_index) index: u32,
) {
  let c = group.x * COLUMNS + local.x;
  let inside = c < dims.C / WIDTH;
  if (inside) { parts[index] = sums_of(c, local.y, PARTS); }
  workgroupBarrier();
  if (!inside || local.y != 0u) { return; }
  var sums = Sums();
  for (var part = 0u; part < PARTS; part++) {
    sums.weight += parts[part * COLUMNS + local.x].weight;
    sums.bias += parts[part * COLUMNS + local.x].bias;
  }
  dweight[c] += sums.weight;
  dbias[c] += sums.bias;
}
