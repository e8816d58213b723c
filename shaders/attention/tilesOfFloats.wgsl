// What attention does with lanes of one float. Twin of tilesOfLanes.wgsl.
// Four lanes side by side: one column for each row of a tensor.
alias Tile = vec4f;
// scores[i][j] = a[j]·b[i]
fn scores(a: Tile, b: Tile) -> mat4x4f { return mat4x4f(a * b.x, a * b.y, a * b.z, a * b.w); }
// s + scores
fn add_scores(s: mat4x4f, a: Tile, b: Tile) -> mat4x4f {
  return mat4x4f(s[0] + a * b.x, s[1] + a * b.y, s[2] + a * b.z, s[3] + a * b.w);
}
// outer[i] = a·by[i]
fn outer(a: Lane, by: vec4f) -> Tile { return a * by; }
fn add_outer(t: Tile, a: Lane, by: vec4f) -> Tile { return t + a * by; }
fn scale_columns(t: Tile, by: vec4f) -> Tile { return t * by; }
fn column_dots(a: Tile, b: Tile) -> vec4f { return a * b; }
