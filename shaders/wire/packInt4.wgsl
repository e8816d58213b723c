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
