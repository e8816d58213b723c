// What the three attention kernels share: how the work is cut (see attention.ts), and sums over a vector.
override HEADS: u32; // invocations of a workgroup: heads side by side …
override TILES: u32; // … times tiles of four rows
override CHUNKS: u32; // lanes in a head's width D
override SLICE: u32; // lanes of it that one invocation accumulates: 4 or 8

const STEPS = vec4u(0, 1, 2, 3);
const HIDDEN = -3.0e38;

fn total4(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest4(x: vec4f) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }

// First lane of a slice. Known to the compiler where there is only one, which spares it every check against CHUNKS.
fn first_chunk(slice: u32) -> u32 {
  if (CHUNKS <= SLICE) { return 0u; }
  return slice * SLICE;
}
