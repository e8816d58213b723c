// What the three attention kernels share: how the work is cut (see attention.ts), queries, keys and values, sums.
// CHUNKS: lanes in a head's width D. SLICE: lanes of it whose sums one invocation (of a software adapter) or one workgroup
// (of a GPU) accumulates. On a software adapter SLICE is 4 or 8, and HEADS are the invocations of a
// workgroup, each with four rows of a head of its own.

const STEPS = vec4u(0, 1, 2, 3);
// Lanes of a slice of eight. With four they are in range, and never used.
const C4 = 4u % SLICE;
const C5 = 5u % SLICE;
const C6 = 6u % SLICE;
const C7 = 7u % SLICE;
const HIDDEN = -3.0e38;

// The first key that each of four rows sees.
fn firsts_of(rows: vec4u) -> vec4u {
  return vec4u(load_first_BT(rows.x), load_first_BT(rows.y), load_first_BT(rows.z), load_first_BT(rows.w));
}
fn total4(x: vec4f) -> f32 { return (x.x + x.y) + (x.z + x.w); }
fn largest4(x: vec4f) -> f32 { return max(max(x.x, x.y), max(x.z, x.w)); }

// First lane of a slice. Known to the compiler where there is only one, which spares it every check against CHUNKS.
fn first_chunk(slice: u32) -> u32 {
  if (CHUNKS <= SLICE) { return 0u; }
  return slice * SLICE;
}

// Four rows of qkv, at lane `chunk` after each row's start.
fn qkv_tile(rows: vec4u, chunk: u32) -> Tile {
  return Tile(
    load_qkv_BTED(rows.x + chunk), load_qkv_BTED(rows.y + chunk),
    load_qkv_BTED(rows.z + chunk), load_qkv_BTED(rows.w + chunk),
  );
}
// One lane of qkv, zero past the head's width: the last slice may be shorter than the others.
fn qkv_lane(row: u32, chunk: u32) -> Lane {
  var lane = Lane();
  if (chunk < CHUNKS) { lane = load_qkv_BTED(row + chunk); }
  return lane;
}
