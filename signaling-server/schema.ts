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
];

export const SCHEMA_VERSION = MIGRATIONS.length;
