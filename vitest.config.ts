import { defineConfig } from 'vitest/config';

/** A minute in which a browser draws and waits: beside whatever computes (setup.mjs). */
const FEED = 'e2e/dashboard.spec.ts';

/** Without a server or a page. */
const PURE = ['{swarm,shaders}/**/*.test.ts', 'web/src/testing/**/*.test.ts'];

const IS_LONG = process.env.SHOAL_LONG === '1';

/** For `npm test -- --long` alone, as are single tests of the other files (`isSeldomDue` in e2e/product.ts). */
const SELDOM = ['accusations', 'changedTab', 'crowds', 'deployment', 'homes', 'memory'].map(
  (name) => `e2e/${name}.spec.ts`,
);

/** Swarms and chaos: what is the same where several servers train the run. */
const OVER_SERVERS = [
  ...['swarm', 'chaos', 'islands', 'connections', 'fidelityGrid'],
  ...['strangers', 'accusations', 'crowds', 'runLife'],
].map((name) => `e2e/${name}.spec.ts`);

/** Lanes whose files share two processes: a test puts back what it replaces (a function, a global, a clock), and replaces no module. */
const SHARED = {
  // What one file has loaded and warmed, the next one has too.
  isolate: false,
  // A hang is the fault here: on a busy machine searches for plans take their time.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  maxWorkers: 2,
};

// One process a file: Dawn for Node does not survive worker threads.
export default defineConfig({
  test: {
    pool: 'forks',
    projects: [
      {
        extends: true,
        test: {
          name: 'swarm',
          include: PURE,
          exclude: ['**/*.gpu.test.ts'],
          ...SHARED,
        },
      },
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{web,signaling-server}/**/*.test.ts'],
          exclude: ['**/*.gpu.test.ts', ...PURE],
          ...SHARED,
          // A process serves one lane: by turns they would each get a new one a file.
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { name: 'gpu', include: ['**/*.gpu.test.ts'], testTimeout: 600_000, hookTimeout: 120_000 },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['e2e/**/*.spec.ts'],
          exclude: IS_LONG ? [FEED] : [FEED, ...SELDOM],
          testTimeout: 1_200_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        // e2e/twoServers.ts
        test: {
          name: 'servers',
          env: { SHOAL_SERVERS: '2' },
          include: OVER_SERVERS,
          testTimeout: 1_200_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      { extends: true, test: { name: 'dashboard', include: [FEED], testTimeout: 600_000 } },
      {
        extends: true,
        // No test: docs/pictures.md.
        test: {
          name: 'pictures',
          include: ['e2e/pictures/*.pictures.ts'],
          testTimeout: 600_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
