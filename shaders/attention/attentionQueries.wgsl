// For the texts in which an invocation takes four queries of one head: which they are, and where the head's lanes lie.

struct Queries {
  head: u32, // b·H + h
  first: u32, // of the four
  last: u32, // of all: those past it are not there
  sample_row: u32,
  width: u32, // lanes of a row of y
  row_lanes: u32, // lanes of a row of qkv
  head_lane: u32,
  k_lane: u32, // of the keys that this head reads
  scale: f32, // of a score
  firsts: vec4u, // of the keys that each sees; the first query's is the least
}

fn has_queries(id: vec3u) -> bool { return id.x < dims.B * dims.H && id.y < (dims.T + 3u) / 4u; }

// Which of the four see a key.
fn seen_by(at: Queries, key: u32) -> vec4<bool> { return (vec4u(key) >= at.firsts) & (vec4u(key) <= at.first + STEPS); }

fn queries_of(id: vec3u) -> Queries {
  let tiles = (dims.T + 3u) / 4u;
  let width = dims.H * CHUNKS;
  let h = id.x % dims.H;
  let first = 4u * (tiles - 1u - id.y); // the longest walks start first
  let last = dims.T - 1u;
  let sample_row = (id.x / dims.H) * dims.T;
  return Queries(
    id.x,
    first,
    last,
    sample_row,
    width,
    width + 2u * dims.K * CHUNKS,
    h * CHUNKS,
    width + h / (dims.H / dims.K) * CHUNKS,
    dims.scale,
    firsts_of(sample_row + min(first + STEPS, vec4u(last))),
  );
}
