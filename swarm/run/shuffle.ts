/**
 * A random order of n things without a list of them: a permutation of `[0, n)` that is a pure function of (seed,
 * epoch), computed for one place at a time in constant memory, so that every peer knows every step's windows by itself.
 *
 * A generalised Feistel network (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002): a place is a pair
 * (left, right) in an a × b grid of at least n cells, and each round adds a hash of one half to the other one, modulo
 * that half's size. A round can be undone, so all of them together are a permutation of the grid. Where they lead out of
 * `[0, n)` they are applied again (cycle walking), which stays a permutation of `[0, n)`: the walk along a cycle that
 * began inside ends inside. With a = ⌈√n⌉ and b = ⌈n/a⌉ fewer than a of the cells lie outside, so one walk suffices
 * almost always.
 */

const ROUNDS = 8;

/** Where place `index` of epoch `epoch` goes. Numbers are whole; n is at least 1, index below n. */
export function permuted(index: number, n: number, seed: number, epoch: number): number {
  const a = Math.ceil(Math.sqrt(n));
  const b = Math.ceil(n / a);
  const key = mixed(mixed(mixed(0x9e3779b9, seed), epoch), n);
  let place = index;
  do {
    let left = Math.floor(place / b);
    let right = place % b;
    for (let round = 0; round < ROUNDS; round += 2) {
      left = (left + mixed(mixed(key, round), right)) % a;
      right = (right + mixed(mixed(key, round + 1), left)) % b;
    }
    place = left * b + right;
  } while (place >= n);
  return place;
}

/** A 32-bit hash of a word and a whole number of up to 53 bits: two rounds of MurmurHash3's finaliser. */
function mixed(word: number, value: number): number {
  return finalised(finalised((word ^ (value >>> 0)) | 0) ^ Math.floor(value / 4294967296));
}

function finalised(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
