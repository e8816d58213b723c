import { describe, expect, it, test } from 'vitest';
import { Chaos } from './chaos.ts';
import { parseChaosScript } from './chaosScript.ts';
import { Rehearsal, type RehearsedDonor } from './rehearsal.ts';

const entries = (script: string, donors = 4) => {
  const parsed = parseChaosScript(script, donors);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
};

describe('the script', () => {
  it('is read entry by entry, joiners numbered after those who were opened', () => {
    const script =
      'kill:2@5, join@9,gpu-lost:4@11,server-kill@12,mute:1@13,nan:0@14,freeze:1@7+10s,cut:3@4+0.5s,slow:1@5*2.5,leave:0@8,lie:2@15,stale:3@16';
    expect(entries(script)).toEqual([
      { kind: 'kill', donor: 2, step: 5, text: 'kill:2@5' },
      { kind: 'join', step: 9, text: 'join@9' },
      { kind: 'gpu-lost', donor: 4, step: 11, text: 'gpu-lost:4@11' },
      { kind: 'server-kill', step: 12, text: 'server-kill@12' },
      { kind: 'mute', donor: 1, step: 13, text: 'mute:1@13' },
      { kind: 'nan', donor: 0, step: 14, text: 'nan:0@14' },
      { kind: 'freeze', donor: 1, step: 7, seconds: 10, text: 'freeze:1@7+10s' },
      { kind: 'cut', donor: 3, step: 4, seconds: 0.5, text: 'cut:3@4+0.5s' },
      { kind: 'slow', donor: 1, step: 5, factor: 2.5, text: 'slow:1@5*2.5' },
      { kind: 'leave', donor: 0, step: 8, text: 'leave:0@8' },
      { kind: 'lie', donor: 2, step: 15, text: 'lie:2@15' },
      { kind: 'stale', donor: 3, step: 16, text: 'stale:3@16' },
    ]);
  });

  test.each([
    ['', /"" is not understood: expected kill:DONOR@STEP/],
    ['kill@3', /"kill@3" is not understood/],
    ['join:1@3', /"join:1@3" is not understood/],
    ['kill:1@x', /"kill:1@x" is not understood/],
    ['kill:1@3;join@4', /not understood/],
    ['explode:1@3', /"explode:1@3" is not understood/],
    ['kill:4@3', /there is no donor 4, expected 0 to 3/],
    ['freeze:1@7', /"freeze:1@7" is not understood.*freeze:DONOR@STEP\+SECONDSs/],
    ['kill:1@7+10s', /"kill:1@7\+10s" is not understood/],
    ['freeze:1@7*3', /"freeze:1@7\*3" is not understood/],
    ['slow:1@7+3s', /"slow:1@7\+3s" is not understood/],
    ['server-kill@7+3s', /"server-kill@7\+3s" is not understood/],
    ['cut:1@7+0s', /cut:1@7\+0s: expected more than 0 s, at most 3600 s/],
    ['cut:1@7+9999s', /expected more than 0 s, at most 3600 s/],
    ['slow:1@7*0.5', /slow:1@7\*0.5: expected 1 to 20 times/],
    ['slow:1@7*21', /expected 1 to 20 times/],
  ])('"%s" is refused in one sentence', (script, sentence) => {
    expect(parseChaosScript(script, 4)).toEqual({ ok: false, reason: expect.stringMatching(sentence) });
  });
});

describe('faults', () => {
  /** Every fault takes effect when the test says so. */
  function rehearse(script: string) {
    const done: string[] = [];
    let nowMs = 0;
    const effects = new Map<string, (took: boolean) => void>();
    let admit: (peer: string | null) => void = () => {};
    const begin = (name: string): Promise<boolean> => {
      done.push(name);
      return new Promise((resolve) => effects.set(name, resolve));
    };
    const donors = [0, 1, 2, 3].map(
      (donor): RehearsedDonor => ({
        peers: new Set([`peer ${donor}`]),
        kill: () => begin(`kill ${donor}`),
        loseGpu: () => begin(`gpu ${donor}`),
        mute: () => begin(`mute ${donor}`),
        leave: () => begin(`leave ${donor}`),
        freeze: (seconds) => begin(`freeze ${donor} for ${seconds}`),
        cut: (seconds) => begin(`cut ${donor} for ${seconds}`),
        slow: (times) => begin(`slow ${donor} by ${times}`),
        tamper: (kind, step) => begin(`${kind} ${donor} from ${step}`),
      }),
    );
    const rehearsal = new Rehearsal(donors, {
      killServer: () => begin('server'),
      join: (onAdmitted) => {
        admit = onAdmitted;
        return begin('join');
      },
      nowMs: () => nowMs,
    });
    const chaos = new Chaos(entries(script), rehearsal, (held) => void done.push(held ? 'hold' : 'release'));
    const seen = (committedSteps: number, peers: readonly string[]): void =>
      rehearsal.see({
        snapshot: { epoch: 1, committedSteps, donors: peers.map((peer) => ({ peer })) },
        ...{ epochReason: '', movedBytes: 0 },
      });
    const takesEffect = async (name: string, took = true): Promise<void> => {
      effects.get(name)?.(took);
      await new Promise((resolve) => setImmediate(resolve));
    };
    const passes = (milliseconds: number): void => {
      nowMs += milliseconds;
    };
    return { chaos, done, seen, passes, takesEffect, admit: (peer: string | null) => admit(peer) };
  }

  it('are sent once, when their step or a later one is first announced', async () => {
    const { chaos, done, takesEffect } = rehearse('kill:1@3,server-kill@5,mute:2@5');
    chaos.stepAnnounced(2);
    expect(done).toEqual([]);
    chaos.stepAnnounced(4);
    chaos.stepAnnounced(3);
    expect(done).toEqual(['kill 1']);
    await takesEffect('kill 1');
    chaos.stepAnnounced(5);
    await takesEffect('server');
    await takesEffect('mute 2');
    expect(chaos.records()).toEqual([
      { entry: 'kill:1@3', firedAtStep: 3 },
      { entry: 'server-kill@5', firedAtStep: 5 },
      { entry: 'mute:2@5', firedAtStep: 5 },
    ]);
  });

  it('cost from when they are sent, a newcomer from its admission on, and nothing where they could not be', async () => {
    const { chaos, seen, passes, takesEffect, admit } = rehearse('kill:1@3,join@3,freeze:2@3+9s');
    seen(3, ['peer 1', 'peer 2']);
    chaos.stepAnnounced(3);
    passes(1_000);
    await takesEffect('kill 1');
    await takesEffect('freeze 2 for 9', false);
    admit('peer 9');
    seen(3, ['peer 2']);
    passes(500);
    seen(4, ['peer 2']);
    expect(chaos.costs()).toEqual([
      { entry: 'kill:1@3', detectedSeconds: 1, resumedSeconds: 1.5, stepsGivenUp: 0, bytesMoved: 0 },
      { entry: 'join@3', detectedSeconds: null, resumedSeconds: 0.5, stepsGivenUp: 0, bytesMoved: 0 },
    ]);
  });

  it('have not fired where they took effect after the end, or could not', async () => {
    const { chaos, takesEffect } = rehearse('kill:1@0,gpu-lost:2@0,kill:3@9');
    chaos.stepAnnounced(0);
    await takesEffect('kill 1', false);
    chaos.end();
    await takesEffect('gpu 2');
    expect(chaos.records().map(({ firedAtStep }) => firedAtStep)).toEqual([null, null, null]);
  });

  it('hold the last step until every newcomer is admitted, who has fired even where no plan has a place', async () => {
    const { chaos, done, admit } = rehearse('join@4');
    expect(done).toEqual(['hold']);
    chaos.stepAnnounced(4);
    admit('peer 9');
    expect(done).toEqual(['hold', 'join', 'release']);
    expect(chaos.records()).toEqual([{ entry: 'join@4', firedAtStep: 4 }]);
  });

  it('hold it no longer for one who never comes', () => {
    const { chaos, done, admit } = rehearse('join@4');
    chaos.stepAnnounced(5);
    admit(null);
    expect(done).toEqual(['hold', 'join', 'release']);
    expect(chaos.records()).toEqual([{ entry: 'join@4', firedAtStep: null }]);
  });
});
