import { describe, expect, it } from 'vitest';
import { script } from './script.ts';

describe('x', () => {
  it('one', () => {
    const s = script({ steps: 3, checkpointEverySteps: 2, evaluation: { everySteps: 2, windows: 4 } });
    s.join('a');
    s.join('b');
    console.log(s.trace());
    s.settle('a report');
    console.log(s.trace());
    s.join('c');
    s.settle();
    console.log(s.trace(), s.run.store);
  });
});
