// countPass for {}
@group(0) @binding(0) var<storage, read_write> passes: array<u32>;
fn load_passes(i: u32) -> u32 { return passes[i]; }
fn store_passes(i: u32, value: u32) { passes[i] = value; }
// passes += 1: the last dispatch of a pass leaves the proof that it was done.

fn run(group: vec3u, groups: vec3u, local: u32) { store_passes(0u, load_passes(0u) + 1u); }

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  run(group, groups, local);
}
