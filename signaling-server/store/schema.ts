/**
 * The tables of a data directory, as a ladder: entry v brings a store of version v to version v+1. An entry that was
 * ever released is never edited; a change is a new entry at the end.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  CREATE TABLE run (
    name TEXT PRIMARY KEY,
    contentHash TEXT NOT NULL,
    document TEXT NOT NULL,
    active INTEGER NOT NULL DEFAULT 0,
    operatorPaused INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    createdAtMs INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE step (
    run TEXT NOT NULL REFERENCES run(name),
    step INTEGER NOT NULL,
    loss REAL NOT NULL,
    gradientNorm REAL NOT NULL,
    learningRate REAL NOT NULL,
    tokens INTEGER NOT NULL,
    seconds REAL NOT NULL,
    donors INTEGER NOT NULL,
    stages INTEGER NOT NULL,
    microBatches INTEGER NOT NULL,
    plan INTEGER NOT NULL,
    bytesDirect INTEGER NOT NULL,
    bytesRelayed INTEGER NOT NULL,
    PRIMARY KEY (run, step)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE ledger (
    run TEXT NOT NULL REFERENCES run(name),
    step INTEGER NOT NULL,
    donor TEXT NOT NULL,
    tokens REAL NOT NULL,
    PRIMARY KEY (run, step, donor)
  ) STRICT, WITHOUT ROWID;
  -- loss after so many committed steps: 0 is the initial state's
  CREATE TABLE evaluation (
    run TEXT NOT NULL REFERENCES run(name),
    committedSteps INTEGER NOT NULL,
    loss REAL NOT NULL,
    PRIMARY KEY (run, committedSteps)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE checkpoint (
    run TEXT NOT NULL REFERENCES run(name),
    committedSteps INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    PRIMARY KEY (run, committedSteps)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE epoch (
    run TEXT NOT NULL REFERENCES run(name),
    epoch INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    plan TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (run, epoch)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    atMs INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
  ) STRICT;
  `,
  // 1 to 2: events know the step at which they were; the newest steps' measured spans are kept
  `
  ALTER TABLE event ADD COLUMN step INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX eventOfRun ON event (run, id);
  CREATE TABLE trace (
    run TEXT NOT NULL REFERENCES run(name),
    step INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    -- share of the peers' time that was idle
    bubble REAL NOT NULL,
    spans TEXT NOT NULL,
    PRIMARY KEY (run, step)
  ) STRICT, WITHOUT ROWID;
  -- kept: the operator wants it beyond the newest ones
  ALTER TABLE checkpoint ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
  `,
  // 2 to 3: what returning donors measured last (profileStore.ts)
  `
  CREATE TABLE profile (
    run TEXT NOT NULL REFERENCES run(name),
    -- SHA-256 of the key that the donor's browser remembers, and of its adapter
    donor TEXT NOT NULL,
    profile TEXT NOT NULL,
    savedAtMs INTEGER NOT NULL,
    PRIMARY KEY (run, donor)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX profileByAge ON profile (run, savedAtMs);
  `,
  // 3 to 4: addresses that may not join (as keyed hashes), text samples of checkpoints
  `
  CREATE TABLE block (address TEXT PRIMARY KEY, atMs INTEGER NOT NULL, note TEXT NOT NULL) STRICT;
  CREATE TABLE sample (
    run TEXT NOT NULL REFERENCES run(name),
    committedSteps INTEGER NOT NULL,
    prompt TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, committedSteps, prompt)
  ) STRICT, WITHOUT ROWID;
  `,
  // 4 to 5: donors who chose to be named, and under which peer ids they worked since (memberStore.ts)
  `
  CREATE TABLE member (
    -- SHA-256 of the key that the donor's browser remembers
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    team TEXT NOT NULL,
    savedAtMs INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE memberPeer (
    run TEXT NOT NULL REFERENCES run(name),
    peer TEXT NOT NULL,
    member TEXT NOT NULL REFERENCES member(id) ON DELETE CASCADE,
    PRIMARY KEY (run, peer)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX memberPeerByMember ON memberPeer (member);
  `,
  // 5 to 6: an event's detail is JSON, whatever its kind: it was a peer, then a space or a colon, then the rest
  `
  UPDATE event SET detail = json_set(substr(detail, instr(detail, ' {') + 1), '$.peer', substr(detail, 1, instr(detail, ' {') - 1))
    WHERE kind IN ('joined', 'fault') AND json_valid(substr(detail, instr(detail, ' {') + 1));
  UPDATE event SET detail = json_object('peer', substr(detail, 1, instr(detail, ': ') - 1), 'detail', substr(detail, instr(detail, ': ') + 2))
    WHERE kind = 'gone';
  UPDATE event SET detail = json_object('peer', detail) WHERE kind = 'left';
  UPDATE event SET detail = json_object('what', detail, 'session', '') WHERE kind = 'operator' AND NOT json_valid(detail);
  UPDATE event SET detail = '{}' WHERE NOT json_valid(detail);
  `,
  // 6 to 7: what the ledger sums up to, kept with each commit: a long run's is asked for all the time
  `
  CREATE TABLE credit (
    run TEXT NOT NULL REFERENCES run(name),
    donor TEXT NOT NULL,
    tokens REAL NOT NULL,
    -- in which it has a part; without any left there is no row
    steps INTEGER NOT NULL,
    PRIMARY KEY (run, donor)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO credit SELECT run, donor, sum(tokens), count(*) FROM ledger GROUP BY run, donor;
  `,
  // 7 to 8: what a step's update is done with and what holds after it, as JSON: donors may hear of it from a later server
  `
  ALTER TABLE step ADD COLUMN applied TEXT;
  `,
  // 8 to 9: of every table a checksum over its rows, and how many of them changed (checksums.ts)
  `
  CREATE TABLE tally (name TEXT PRIMARY KEY, sum INTEGER NOT NULL, changes INTEGER NOT NULL) STRICT;
  `,
  // 9 to 10: with several groups of donors, the steps that stood at their last meeting
  `
  ALTER TABLE run ADD COLUMN metSteps INTEGER NOT NULL DEFAULT 0;
  `,
  // 10 to 11: which number a step was, and whose: where rounds are recorded
  `
  ALTER TABLE step ADD COLUMN number INTEGER;
  ALTER TABLE step ADD COLUMN island INTEGER;
  ALTER TABLE step ADD COLUMN round INTEGER;
  ALTER TABLE step ADD COLUMN innerStep INTEGER;
  `,
  // 11 to 12: where rounds go on beside meetings, of how many of these a step had what came of them
  `
  ALTER TABLE step ADD COLUMN tookIn INTEGER;
  `,
  // 12 to 13: kept checkpoints of steps that a roll-back undid, by the generation whose steps they were
  `
  CREATE TABLE formerCheckpoint (
    run TEXT NOT NULL REFERENCES run(name),
    generation INTEGER NOT NULL,
    committedSteps INTEGER NOT NULL,
    manifest TEXT NOT NULL,
    PRIMARY KEY (run, generation, committedSteps)
  ) STRICT, WITHOUT ROWID;
  `,
  // 13 to 14: names are found by how they look (lookOf in publicName.ts: where that changes, they are worked out again)
  `
  ALTER TABLE member ADD COLUMN look TEXT NOT NULL DEFAULT '';
  UPDATE member SET look = lookOf(name);
  CREATE INDEX memberByLook ON member (look);
  CREATE INDEX memberByAge ON member (savedAtMs, id);
  `,
  // 14 to 15: of a run with a budget of time, at which share of it a step was given out: also of one that was undone
  `
  ALTER TABLE step ADD COLUMN share REAL;
  CREATE TABLE givenOut (
    run TEXT NOT NULL REFERENCES run(name),
    step INTEGER NOT NULL,
    share REAL NOT NULL,
    PRIMARY KEY (run, step)
  ) STRICT, WITHOUT ROWID;
  `,
  // 15 to 16: how long donors stayed
  `
  CREATE TABLE stay (
    id INTEGER PRIMARY KEY,
    startedAtMs INTEGER NOT NULL,
    seconds REAL NOT NULL,
    hasEnded INTEGER NOT NULL,
    isNew INTEGER NOT NULL
  ) STRICT;
  `,
  // 16 to 17: which share of its questions a model answered right, and after which steps its weights were; null: nobody could be asked
  `
  CREATE TABLE rightAnswers (
    run TEXT NOT NULL REFERENCES run(name),
    -- of the evaluation
    committedSteps INTEGER NOT NULL,
    share REAL,
    fromStep INTEGER,
    toStep INTEGER,
    PRIMARY KEY (run, committedSteps)
  ) STRICT, WITHOUT ROWID;
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;
