import { defineConfig } from 'vitest/config';

// One process a file: Dawn for Node does not survive worker threads.
export default defineConfig({
  test: {
    pool: 'forks',
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['{swarm,shaders,web,signaling-server}/**/*.test.ts'],
          exclude: ['**/*.gpu.test.ts'],
          testTimeout: 30_000,
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: { name: 'gpu', include: ['**/*.gpu.test.ts'], testTimeout: 120_000, hookTimeout: 120_000 },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['e2e/**/*.spec.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
