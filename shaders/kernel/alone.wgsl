// For software adapters, where one invocation has a whole row: the twin of team.wgsl.
const TEAM = 1u;
fn team_total(lane: u32, value: f32) -> f32 { return value; }
fn team_largest(lane: u32, value: f32) -> f32 { return value; }
