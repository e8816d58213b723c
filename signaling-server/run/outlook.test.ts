import { expect, test } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import type { Store } from '../store/store.ts';
import { Outlook } from './outlook.ts';

const left = (why: 'noGain' | 'queued'): DecisionEffect => ({
  ...{ type: 'send', to: peerId('b') },
  message: { type: 'standby', state: 'spare', why },
});

const trainedBy = (...names: string[]): Snapshot => ({
  ...{ run: 'r', phase: 'training', sentence: '', generation: 0, epoch: 1, committedSteps: 0, steps: 10 },
  ...{ loss: null, evaluationLoss: null, tokensPerSecond: null },
  donors: names.map((name) => ({
    ...{ peer: peerId(name), state: 'computing', stages: [{ stage: 0, layers: [0, 1] }], tokens: 0 },
    adapter: { vendor: '', architecture: '', description: '', software: false, browser: '' },
  })),
});

test('who was left out because it would not help is told of until others train, also after it left', () => {
  const outlook = new Outlook({ newestRightAnswers: () => null, queue: () => [], steps: () => [] });
  outlook.effect(left('queued'));
  expect(outlook.shown(trainedBy('a'))).toEqual({});
  outlook.effect(left('noGain'));
  expect(outlook.shown(trainedBy())).toEqual({});
  expect(outlook.shown(trainedBy('a'))).toEqual({ isFull: true });
  expect(outlook.shown(trainedBy('a'))).toEqual({ isFull: true });
  expect(outlook.shown(trainedBy('a', 'c'))).toEqual({});
  expect(outlook.shown(trainedBy('c'))).toEqual({});
});

test('the run that comes next is told, and that the server changes to it', () => {
  const queue: string[] = [];
  const outlook = new Outlook({ newestRightAnswers: () => null, queue: () => queue, steps: () => [] });
  queue.push('second');
  expect(outlook.shown(trainedBy('a'))).toEqual({ next: 'second' });
  outlook.changesTo = 'second';
  expect(outlook.shown(trainedBy('a'))).toEqual({ next: 'second', changesTo: 'second' });
});

test('the loss where the run stands is there after it went back, too', () => {
  const record = { step: 3, loss: 1.5 } as ReturnType<Store['steps']>[number];
  const outlook = new Outlook({
    newestRightAnswers: () => null,
    queue: () => [],
    steps: (_, from) => (from === 3 ? [record] : []),
  });
  expect(outlook.shown({ ...trainedBy(), committedSteps: 4 })).toEqual({ loss: 1.5 });
  expect(outlook.shown({ ...trainedBy(), committedSteps: 4, loss: 2 })).toEqual({});
});
