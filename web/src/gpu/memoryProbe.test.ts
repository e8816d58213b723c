/** The probe of a GPU's memory, on a device that says how much it has and how long writing takes. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { bytesToTry, probeMemory } from './memoryProbe.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
/** No device is asked for anything that its limits forbid. */
const MAX_BUFFER = 200 * MIB;

beforeEach(() => void vi.stubGlobal('GPUBufferUsage', { STORAGE: 128, COPY_DST: 8 }));
afterEach(() => void vi.unstubAllGlobals());

/** A card: so many bytes, and the seconds that writing a byte takes at a place. */
class FakeCard {
  readonly capacity: number;
  readonly secondsOfByte: (at: number) => number;
  /** What each submission takes, however little it writes. */
  secondsOfPiece = 0;
  had = 0;
  written = 0;
  most = 0;
  clock = 0;
  #error: string | null = null;
  #cleared = 0;

  constructor(capacity: number, secondsOfByte: (at: number) => number = () => 1e-12) {
    this.capacity = capacity;
    this.secondsOfByte = secondsOfByte;
  }

  readonly now = (): number => this.clock;

  readonly device = {
    limits: { maxBufferSize: MAX_BUFFER },
    pushErrorScope: () => {
      this.#error = null;
    },
    popErrorScope: async () => this.#error,
    createBuffer: ({ size }: { size: number }) => {
      expect(size).toBeLessThanOrEqual(MAX_BUFFER);
      this.had += size;
      this.most = Math.max(this.most, this.had);
      if (this.had > this.capacity) this.#error = 'out of memory';
      const destroy = (): void => {
        this.had -= size;
      };
      return { size, destroy };
    },
    createCommandEncoder: () => ({
      clearBuffer: ({ size }: { size: number }) => {
        this.#cleared += size;
      },
      finish: () => null,
    }),
    queue: {
      submit: () => {
        this.clock += this.secondsOfPiece + this.#cleared * this.secondsOfByte(this.had);
        this.written += this.#cleared;
        this.#cleared = 0;
      },
      onSubmittedWorkDone: async () => {},
    },
  };

  probe(triedBytes: number, neededBytes: number): Promise<number> {
    return probeMemory(this.device as unknown as GPUDevice, triedBytes, neededBytes, this.now);
  }
}

test('a card with room for all of it has all of it: every byte is written once, and freed', async () => {
  const card = new FakeCard(24 * GIB);
  expect(await card.probe(2 * GIB, 19 * MIB)).toBe(2 * GIB);
  expect(card).toMatchObject({ written: 2 * GIB, most: 2 * GIB, had: 0 });
});

test('the sum doubles until there is an error', async () => {
  const card = new FakeCard(700 * MIB);
  // 19 that the run needs, then twice as much each time: 608, and not 1,216.
  expect(await card.probe(2 * GIB, 19 * MIB)).toBe(608 * MIB);
  expect(card.had).toBe(0);
});

test('a piece that takes ten times as long a byte ends it: the card has that no more', async () => {
  const card = new FakeCard(24 * GIB, (at) => (at > 500 * MIB ? 1e-9 : 1e-10));
  expect(await card.probe(2 * GIB, 19 * MIB)).toBe(304 * MIB);
});

test('it takes no more than half a second beyond what the run needs, which is tried whatever it takes', async () => {
  const slow = new FakeCard(24 * GIB, () => 1 / (600 * MIB));
  expect(await slow.probe(2 * GIB, 19 * MIB)).toBe(304 * MIB);
  expect(slow.clock).toBeCloseTo(304 / 600);
  const needed = new FakeCard(24 * GIB, (at) => (at > GIB ? 10 : 1) / GIB);
  expect(await needed.probe(3 * GIB, 3 * GIB)).toBe(3 * GIB);
});

test('a machine that is busy for a moment does not end it: what a run of little memory took tells nothing of a byte', async () => {
  const busy = new FakeCard(24 * GIB);
  busy.secondsOfPiece = 0.05;
  expect(await busy.probe(512 * MIB, 100_000)).toBe(512 * MIB);
});

test('a limit is the end, also within what the run needs', async () => {
  expect(await new FakeCard(24 * GIB).probe(100 * MIB, 3 * GIB)).toBe(100 * MIB);
});

test.each([
  ['no limit: two gibibytes', {}, 2 * GIB],
  ['no limit, and no run so large', { draftedBytes: 700 * MIB }, 700 * MIB],
  ['no limit, and a run at hand that needs more', { neededBytes: 5 * GIB }, 5 * GIB],
  ['a limit is the donor’s word', { limitBytes: 20 * GIB }, 20 * GIB],
  ['a low one too', { limitBytes: 64 * MIB, neededBytes: 5 * GIB }, 64 * MIB],
  ['a software adapter: an eighth of the machine', { software: true, machineGibibytes: 8 }, GIB],
  ['whatever is given', { software: true, machineGibibytes: 8, limitBytes: 20 * GIB }, GIB],
  ['one whose browser says nothing of the machine', { software: true }, 512 * MIB],
] as const)('how far it is tried: %s', (_what, wishes, bytes) => {
  const usual = { neededBytes: 19 * MIB, draftedBytes: 3 * GIB, limitBytes: null, software: false };
  expect(bytesToTry({ ...usual, machineGibibytes: undefined, ...wishes })).toBe(bytes);
});
