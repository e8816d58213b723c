/** How far a training is: a bar where someone looks at a terminal, a plain line now and then where not. */
import cliProgress from 'cli-progress';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { speedText } from '../../swarm/quantityText.ts';
import type { FileProgress } from '../texts/tokens.ts';

const LINE_INTERVAL_MS = 5_000;
/** A file that is read in less is not worth a line. */
const FILE_INTERVAL_MS = 2_000;

interface TrainingProgress {
  /** A sentence above the bar. */
  note(text: string): void;
  show(snapshot: Snapshot): void;
  end(): void;
}

export function trainingProgress(stream: NodeJS.WriteStream): TrainingProgress {
  return stream.isTTY ? bar(stream) : lines(stream);
}

/** `tokenising FILE: 37 %`, now and then, and at the end of a file that had such a line. */
export function fileProgress(say: (line: string) => void, now: () => number = () => performance.now()): FileProgress {
  let lastMs = now();
  let last = '';
  return (work, path, share) => {
    const file = `${work} ${path}`;
    const isEnd = share >= 1 && last === file;
    if (!isEnd && now() - lastMs < FILE_INTERVAL_MS) return;
    lastMs = now();
    last = isEnd ? '' : file;
    say(`${file}: ${Math.floor(100 * share)} %`);
  };
}

/** Seconds to the last step, at the pace since the first step that was seen; null before the second. */
function timeLeft() {
  let last: number | null = null;
  let first: { readonly step: number; readonly ms: number } | null = null;
  let seconds: number | null = null;
  return ({ committedSteps, steps }: Snapshot): number | null => {
    last ??= committedSteps;
    if (committedSteps === last) return seconds;
    last = committedSteps;
    // The first step also waits for pipelines to compile: it says nothing about the others.
    first ??= { step: committedSteps, ms: performance.now() };
    const done = committedSteps - first.step;
    seconds = done <= 0 ? null : ((performance.now() - first.ms) / 1_000 / done) * (steps - committedSteps);
    return seconds;
  };
}

const minutes = (seconds: number | null): string => {
  if (seconds === null) return '-:--';
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
};

function figures(snapshot: Snapshot, left: number | null) {
  return {
    loss: snapshot.loss?.toFixed(3) ?? '-',
    speed: snapshot.tokensPerSecond === null ? '-' : speedText(snapshot.tokensPerSecond),
    left: minutes(left),
  };
}

function bar(stream: NodeJS.WriteStream): TrainingProgress {
  const format = '{value}/{total} steps [{bar}] loss {loss} | {speed} tokens/s | {left} left';
  const shown = new cliProgress.SingleBar(
    { stream, format, hideCursor: true, barsize: 24 },
    cliProgress.Presets.legacy,
  );
  const left = timeLeft();
  let isStarted = false;
  return {
    note: (text) => {
      if (!isStarted) stream.write(`${text}\n`);
    },
    show: (snapshot) => {
      const { committedSteps, steps } = snapshot;
      const payload = figures(snapshot, left(snapshot));
      if (!isStarted && snapshot.phase !== 'training') return;
      if (!isStarted) shown.start(steps, committedSteps, payload);
      isStarted = true;
      shown.update(committedSteps, payload);
    },
    end: () => {
      if (isStarted) shown.stop();
    },
  };
}

function lines(stream: NodeJS.WriteStream): TrainingProgress {
  const left = timeLeft();
  let lastMs = -Infinity;
  let lastStep = -1;
  return {
    note: (text) => void stream.write(`${text}\n`),
    show: (snapshot) => {
      const { committedSteps, steps } = snapshot;
      const remaining = left(snapshot);
      const isDue = performance.now() - lastMs > LINE_INTERVAL_MS || committedSteps === steps;
      if (!isDue || committedSteps === lastStep || snapshot.loss === null) return;
      lastMs = performance.now();
      lastStep = committedSteps;
      const { loss, speed, left: time } = figures(snapshot, remaining);
      stream.write(`${committedSteps}/${steps} steps, loss ${loss}, ${speed} tokens/s, ${time} left\n`);
    },
    end: () => {},
  };
}
