#!/usr/bin/env bash
# What:     float32 to half in three 0.187.0 (DataUtils.toHalfFloat) and @babylonjs/core 9.35.0 (ToHalfFloat), the converters
#           that WebGL and WebGPU code has at hand, beside @petamoriken/float16 3.9.3 (Math.f16round). 2026-12-01.
# Guessed:  all round to the nearest half, ties to even, as numpy, torch and `Math.f16round` do; too large is infinite.
# Seen:     both cut off: of 100,000 seeded numbers in ±4 half are one step too near to 0, none is too far from it. In three
#           what is too large, infinity too, becomes 65504.
# Matters:  weights written so are all a little too small, by half a step on average where rounding errs by none, and a copy
#           of the same model by another library has other bits, so that nobody's checksum agrees.
# Instead:  round with `Math.f16round` (or a library that does) before the bits are taken.
source "$(dirname "$0")/common.sh"
enter three@0.187.0 @babylonjs/core@9.35.0 @petamoriken/float16@3.9.3
cat > run.mjs <<'JS'
import { ToHalfFloat } from '@babylonjs/core/Misc/textureTools.js';
import { Float16Array } from '@petamoriken/float16';
import { DataUtils } from 'three';
import { end, say } from './say.mjs';

const value = new Float16Array(1);
const bits = new Uint16Array(value.buffer);
const rounded = (x) => {
  value[0] = x;
  return bits[0];
};

/** The same numbers each time. */
function* numbers(count) {
  let state = 1;
  for (let at = 0; at < count; at++) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    yield Math.fround((state / 2 ** 30 - 1) * 4);
  }
}

console.warn = () => {}; // three says "out of range" of each
for (const [name, half] of Object.entries({ three: DataUtils.toHalfFloat, babylon: ToHalfFloat })) {
  let [smaller, larger, count] = [0, 0, 0];
  for (const x of numbers(100_000)) {
    const apart = (half(x) & 0x7fff) - (rounded(x) & 0x7fff);
    count++;
    if (apart < 0) smaller++;
    if (apart > 0) larger++;
  }
  say(`${name}: share of halves that are too near to 0`, '0.0', '0.5', (smaller / count).toFixed(1));
  say(`${name}: that are too far from 0`, 0, 0, larger);
}
say('three: of infinity', rounded(Infinity).toString(16), '7bff', DataUtils.toHalfFloat(Infinity).toString(16));
end();
JS
node run.mjs
