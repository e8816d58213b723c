// packInt4.drawn for {n:1,gain:1}
struct Dims { n: u32, gain: f32 }
@group(1) @binding(0) var<uniform> dims: Dims;
@group(0) @binding(0) var<storage, read> x: array<f32>;
fn load_x(i: u32) -> f32 { return x[i]; }
@group(0) @binding(1) var<storage, read> key: array<u32>;
fn load_key(i: u32) -> u32 { return key[i]; }
@group(0) @binding(2) var<storage, read_write> packed: array<u32>;
fn load_packed(i: u32) -> u32 { return packed[i]; }
fn store_packed(i: u32, value: u32) { packed[i] = value; }
// A lane is one float: for lengths that four does not divide. Twin of wide.wgsl; a kernel is written for both.
alias Lane = f32;
const WIDTH = 1u;

fn total(x: Lane) -> f32 { return x; }
fn largest(x: Lane) -> f32 { return x; }
fn lane_element(x: Lane, i: u32) -> f32 { return x; }
fn lane_replaced(x: Lane, i: u32, value: f32) -> Lane { return value; }
const TILES = 5u;
const TILE_WORDS = 5u;
// Two floats as a word of halves. Rounding (to even), saturation and what is not finite are settled on the bits of the
// floats, so that pack2x16float has nothing left to round: some GPUs would cut, and none promises anything of NaN.
const INFINITY_BITS = 0x7f800000u;
const LARGEST_BITS = 0x477fe000u; // 65504

// The float of eleven significant bits that is nearest, at most the largest half.
fn rounded(bits: u32) -> f32 {
  let magnitude = bits & 0x7fffffffu;
  let nearest = (magnitude + 0xfffu + ((magnitude >> 13u) & 1u)) & 0xffffe000u;
  return bitcast<f32>((bits & 0x80000000u) | min(nearest, LARGEST_BITS));
}

fn finished(half: u32, bits: u32) -> u32 {
  let magnitude = bits & 0x7fffffffu;
  if (magnitude < INFINITY_BITS) { return half; }
  return select(0x7e00u, ((bits >> 16u) & 0x8000u) | 0x7c00u, magnitude == INFINITY_BITS);
}

fn half_word(low: f32, high: f32) -> u32 {
  let first = bitcast<u32>(low);
  let second = bitcast<u32>(high);
  let word = pack2x16float(vec2f(rounded(first), rounded(second)));
  return finished(word & 0xffffu, first) | (finished(word >> 16u, second) << 16u);
}
// A tile of 32 elements in eight vectors, and the orthogonal rotation that is its own inverse: the Hadamard matrix / √32.
alias Tile = array<vec4f, 8>;
const HADAMARD = 0.17677669529663687; // 1 / √32

fn rotate(tile: ptr<function, Tile>) {
  for (var i = 0u; i < 8u; i++) {
    let a = (*tile)[i];
    let b = vec4f(a.x + a.y, a.x - a.y, a.z + a.w, a.z - a.w);
    (*tile)[i] = vec4f(b.x + b.z, b.y + b.w, b.x - b.z, b.y - b.w);
  }
  for (var half = 1u; half < 8u; half *= 2u) {
    for (var i = 0u; i < 8u; i++) {
      if ((i & half) != 0u) { continue; }
      let a = (*tile)[i];
      let b = (*tile)[i + half];
      (*tile)[i] = a + b;
      (*tile)[i + half] = a - b;
    }
  }
  for (var i = 0u; i < 8u; i++) { (*tile)[i] *= HADAMARD; }
}

fn swap_with_first(tile: ptr<function, Tile>, place: u32) {
  let first = (*tile)[0].x;
  (*tile)[0].x = (*tile)[place / 4u][place % 4u];
  (*tile)[place / 4u][place % 4u] = first;
}

// Where the words of a tile begin: a word of how they are rotated stands before each TILES tiles.
fn words_of(tile: u32) -> u32 { return tile * TILE_WORDS + tile / TILES + 1u; }
fn rotations_of(tile: u32) -> u32 { return (tile / TILES) * (TILES * TILE_WORDS + 1u); }
// A word in which every bit depends on each of `value`'s (PCG's output function); `mixed` in swarm/base.ts is its twin.
fn mixed(value: u32) -> u32 {
  let state = value * 747796405u + 2891336453u;
  let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}
// Levels are rounded up as often as they lie near the upper one: drawn by the key and the place, the same everywhere.
fn rounding_at(i: u32) -> f32 { return f32(mixed(i ^ load_key(0u)) >> 8u) * 0x1p-24; }
// One invocation a tile; the first of each TILES tiles writes how all of them are rotated. `rounding_at` says what is
// added to a level before it is cut to a whole number: a half, or something drawn.
const MOST_BITS = 0x7f000000u; // 2^127: as good as infinite
const LEAST_BITS = 0x0d800000u; // 2^-100: a tile below it is zero
const NAN_RANGE = 0x7e007e00u;

// Bits of the two largest magnitudes, and where the largest stands. Bits order as magnitudes do, NaN above all.
struct Peak { largest: u32, second: u32, place: u32 }

fn element(i: u32) -> f32 {
  if (i >= dims.n) { return 0; }
  return load_x(i) * dims.gain;
}

fn peak_of(tile: u32) -> Peak {
  var peak = Peak();
  for (var j = 0u; j < 32u; j++) {
    let bits = bitcast<u32>(element(32u * tile + j)) & 0x7fffffffu;
    if (bits > peak.largest) { peak = Peak(bits, peak.largest, j); } else { peak.second = max(peak.second, bits); }
  }
  return peak;
}

fn is_rotated(peak: Peak) -> bool {
  return peak.largest < MOST_BITS && peak.largest >= LEAST_BITS &&
    bitcast<f32>(peak.largest) > 2 * bitcast<f32>(peak.second);
}

fn rotation_bits(peak: Peak) -> u32 { return select(0u, 32u | peak.place, is_rotated(peak)); }

// The half that is nearest; of the two zeros, between which min and max do not choose, always the same.
fn end_of(value: f32) -> f32 { return select(rounded(bitcast<u32>(value)), 0.0, value == 0); }

// The level of a value `above` the lowest one, of the 15 that make `range`. Comparisons decide, so that no division's
// rounding does: every adapter makes the same codes.
fn level(above: f32, range: f32, rounding: f32) -> u32 {
  let scaled = above * 15;
  let near = clamp(floor(scaled / range + rounding), 0, 15);
  if (near > 0 && scaled < (near - rounding) * range) { return u32(near) - 1u; }
  if (near < 15 && scaled >= (near + 1 - rounding) * range) { return u32(near) + 1u; }
  return u32(near);
}

fn item(tile: u32) {
  if (32u * tile >= dims.n) { return; }
  let peak = peak_of(tile);
  if (tile % TILES == 0u) {
    var bits = rotation_bits(peak);
    for (var k = 1u; k < TILES; k++) { bits |= rotation_bits(peak_of(tile + k)) << (6u * k); }
    store_packed(rotations_of(tile), bits);
  }
  let word = words_of(tile);
  if (peak.largest < LEAST_BITS || peak.largest >= MOST_BITS) {
    store_packed(word, select(0u, NAN_RANGE, peak.largest >= MOST_BITS));
    for (var i = 1u; i < TILE_WORDS; i++) { store_packed(word + i, 0u); }
    return;
  }
  var values: Tile;
  for (var i = 0u; i < 8u; i++) {
    let first = 32u * tile + 4u * i;
    values[i] = vec4f(element(first), element(first + 1u), element(first + 2u), element(first + 3u));
  }
  if (is_rotated(peak)) {
    swap_with_first(&values, peak.place);
    rotate(&values);
  }
  var least = values[0];
  var greatest = values[0];
  for (var i = 1u; i < 8u; i++) {
    least = min(least, values[i]);
    greatest = max(greatest, values[i]);
  }
  let low = end_of(min(min(least.x, least.y), min(least.z, least.w)));
  let high = end_of(max(max(greatest.x, greatest.y), max(greatest.z, greatest.w)));
  store_packed(word, half_word(low, high));
  let range = high - low;
  for (var i = 0u; i < 4u; i++) {
    var codes = 0u;
    for (var j = 0u; j < 8u; j++) {
      let at = 8u * i + j;
      let above = values[at / 4u][at % 4u] - low;
      if (range > 0) { codes |= level(above, range, rounding_at(32u * tile + at)) << (4u * j); }
    }
    store_packed(word + 1u + i, codes);
  }
}

fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * 64u + local);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
