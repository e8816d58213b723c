// What attention does with lanes of four floats. Twin of tilesOfFloats.wgsl.
// Four lanes side by side: one column for each row of a tensor, one row for each element of a lane.
alias Tile = mat4x4f;
// scores[i][j] = a[j]·b[i]
fn scores(a: Tile, b: Tile) -> mat4x4f { return transpose(a) * b; }
// s + scores, a chain of multiply-adds for each element
fn add_scores(s: mat4x4f, a: Tile, b: Tile) -> mat4x4f {
  let t = transpose(a);
  return mat4x4f(
    s[0] + t[0] * b[0].x + t[1] * b[0].y + t[2] * b[0].z + t[3] * b[0].w,
    s[1] + t[0] * b[1].x + t[1] * b[1].y + t[2] * b[1].z + t[3] * b[1].w,
    s[2] + t[0] * b[2].x + t[1] * b[2].y + t[2] * b[2].z + t[3] * b[2].w,
    s[3] + t[0] * b[3].x + t[1] * b[3].y + t[2] * b[3].z + t[3] * b[3].w,
  );
}
// outer[i] = a·by[i]
fn outer(a: Lane, by: vec4f) -> Tile { return Tile(a * by.x, a * by.y, a * by.z, a * by.w); }
fn add_outer(t: Tile, a: Lane, by: vec4f) -> Tile {
  return Tile(t[0] + a * by.x, t[1] + a * by.y, t[2] + a * by.z, t[3] + a * by.w);
}
fn scale_columns(t: Tile, by: vec4f) -> Tile { return Tile(t[0] * by.x, t[1] * by.y, t[2] * by.z, t[3] * by.w); }
fn column_dots(a: Tile, b: Tile) -> vec4f {
  return vec4f(dot(a[0], b[0]), dot(a[1], b[1]), dot(a[2], b[2]), dot(a[3], b[3]));
}
