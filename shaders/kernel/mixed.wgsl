// A word in which every bit depends on each of `value`'s (PCG's output function); `mixed` in swarm/base.ts is its twin.
fn mixed(value: u32) -> u32 {
  let state = value * 747796405u + 2891336453u;
  let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
  return (word >> 22u) ^ word;
}
