// passes += 1: the last dispatch of a pass leaves the proof that it was done.

fn run(group: vec3u, groups: vec3u, local: u32) { store_passes(0u, load_passes(0u) + 1u); }
