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
}

fn has_queries(id: vec3u) -> bool { return id.x < dims.B * dims.H && id.y < (dims.T + 3u) / 4u; }

fn queries_of(id: vec3u) -> Queries {
  let tiles = (dims.T + 3u) / 4u;
  let width = dims.H * CHUNKS;
  let h = id.x % dims.H;
  return Queries(
    id.x,
    4u * (tiles - 1u - id.y), // the longest walks start first
    dims.T - 1u,
    (id.x / dims.H) * dims.T,
    width,
    width + 2u * dims.K * CHUNKS,
    h * CHUNKS,
    width + h / (dims.H / dims.K) * CHUNKS,
    1.0 / sqrt(f32(dims.D)),
  );
}
