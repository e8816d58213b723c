import { expect, test } from 'vitest';
import { type CallNews, PageCalls, WorkerCalls } from './calls.ts';
import type { Call, CallEvents } from './peerConnection.ts';
import { type DataChannel, PortChannel, portTo } from './portChannel.ts';
import type { TurnAnswer } from './turnGathering.ts';

const CALL: Call = { initiator: true, iceServers: [{ urls: 'stun:localhost' }], relayOnly: false };

/** As a browser's, but that it sends nothing by itself. */
class FakeChannel extends EventTarget {
  readyState: RTCDataChannelState = 'connecting';
  bufferedAmount = 0;
  bufferedAmountLowThreshold = 0;
  binaryType: BinaryType = 'blob';
  readonly sent: unknown[] = [];

  send(message: ArrayBuffer | string): void {
    this.sent.push(message);
    this.bufferedAmount += typeof message === 'string' ? message.length : message.byteLength;
  }

  become(state: 'open' | 'closed'): void {
    this.readyState = state;
    this.dispatchEvent(new Event(state === 'open' ? 'open' : 'close'));
  }

  /** All that it held has left. */
  drain(): void {
    this.bufferedAmount = 0;
    this.dispatchEvent(new Event('bufferedamountlow'));
  }
}

const asChannel = (fake: FakeChannel): RTCDataChannel => fake as unknown as RTCDataChannel;

/** Until the ports have carried what was said. */
const carried = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
};

async function byPort() {
  const fake = new FakeChannel();
  const channel = new PortChannel(portTo(asChannel(fake)));
  const heard: string[] = [];
  channel.addEventListener('open', () => heard.push('open'));
  channel.addEventListener('message', ({ data }) =>
    heard.push(data instanceof ArrayBuffer ? `${data.byteLength} bytes` : data),
  );
  channel.addEventListener('bufferedamountlow', () => heard.push('low'));
  return { fake, channel, heard };
}

test('by a port a channel opens, carries both ways and counts what it holds, and what is on its way to it', async () => {
  const { fake, channel, heard } = await byPort();
  expect(() => channel.send(new ArrayBuffer(8))).toThrow('the channel is connecting');
  fake.become('open');
  await carried();
  expect([channel.readyState, heard]).toEqual(['open', ['open']]);

  channel.bufferedAmountLowThreshold = 100;
  const message = new ArrayBuffer(300);
  channel.send(message);
  channel.send('mark');
  expect([channel.bufferedAmount, message.byteLength]).toEqual([304, 0]);
  await carried();
  expect(fake.sent.map((sent) => (sent instanceof ArrayBuffer ? sent.byteLength : sent))).toEqual([300, 'mark']);
  expect([fake.bufferedAmountLowThreshold, channel.bufferedAmount]).toEqual([100, 304]);
  fake.drain();
  await carried();
  expect([channel.bufferedAmount, heard]).toEqual([0, ['open', 'low']]);

  for (const data of [new ArrayBuffer(77), 'word']) fake.dispatchEvent(new MessageEvent('message', { data }));
  await carried();
  expect(heard).toEqual(['open', 'low', '77 bytes', 'word']);
});

test('what comes too late for a channel is lost with it, and later nothing can be sent', async () => {
  const { fake, channel } = await byPort();
  fake.become('open');
  await carried();
  channel.send('on its way');
  fake.become('closed');
  await carried();
  expect([fake.sent, channel.readyState, channel.bufferedAmount]).toEqual([[], 'closed', 0]);
  expect(() => channel.send('after')).toThrow('the channel is closed');
});

interface Dialled {
  readonly call: Call;
  readonly events: CallEvents<RTCDataChannel>;
  readonly signals: string[];
  isClosed: boolean;
}

/** A worker's calls and its page's, whose news go both ways at once. */
function calls(canMove: boolean) {
  const dialled: Dialled[] = [];
  const news: CallNews[] = [];
  const turn: TurnAnswer[] = [];
  const page = new PageCalls(
    (call, events) => {
      const one: Dialled = { call, events, signals: [], isClosed: false };
      dialled.push(one);
      return { signal: (data) => one.signals.push(data), close: () => (one.isClosed = true) };
    },
    canMove,
    (id, told) => {
      news.push(told);
      worker.told(id, told);
    },
  );
  const worker = new WorkerCalls(page, (answers) => turn.push(...answers));
  return { page, worker, dialled, news, turn };
}

function listener() {
  const heard: string[] = [];
  const taken: DataChannel[] = [];
  const events: CallEvents<DataChannel> = {
    channels: ({ frames, quick, heartbeat }) => taken.push(frames, quick, heartbeat),
    signal: (data) => heard.push(`signal ${data}`),
    stranded: (why) => heard.push(`stranded: ${why}`),
    closed: (reason) => heard.push(`closed: ${reason}`),
  };
  return { heard, taken, events };
}

const channels = () => {
  const made = [new FakeChannel(), new FakeChannel(), new FakeChannel()] as const;
  const [frames, quick, heartbeat] = made.map(asChannel) as [RTCDataChannel, RTCDataChannel, RTCDataChannel];
  return { frames, quick, heartbeat };
};

test('a worker’s calls are its page’s: channels themselves where they may go, else ports; signals and ends of each alone', () => {
  for (const canMove of [true, false]) {
    const { worker, dialled } = calls(canMove);
    const [one, other] = [listener(), listener()];
    const called = worker.dial(CALL, one.events);
    worker.dial({ ...CALL, initiator: false }, other.events);
    expect(dialled.map(({ call }) => call.initiator)).toEqual([true, false]);
    const made = channels();
    dialled[0]?.events.channels(made);
    expect(one.taken.length).toBe(3);
    expect(one.taken[0] instanceof PortChannel).toBe(!canMove);
    if (canMove) expect(one.taken[0]).toBe(made.frames);
    dialled[0]?.events.signal('offer');
    called.signal('answer');
    dialled[1]?.events.stranded('noAddress');
    dialled[1]?.events.closed('no way');
    expect([one.heard, other.heard, dialled.map(({ signals }) => signals)]).toEqual([
      ['signal offer'],
      ['stranded: noAddress', 'closed: no way'],
      [['answer'], []],
    ]);
    called.close();
    called.close();
    expect(dialled.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    // What the page had said by then.
    dialled[0]?.events.closed('late');
    expect(one.heard).toEqual(['signal offer']);
  }
});

test('what a call’s TURN servers answered is heard after its end, too', () => {
  const { worker, dialled, turn } = calls(true);
  const called = worker.dial(CALL, listener().events);
  dialled[0]?.events.turnAnswered?.([{ url: 'turn:a', code: null }]);
  called.close();
  dialled[0]?.events.turnAnswered?.([{ url: 'turn:a', code: 701 }]);
  expect(turn).toEqual([
    { url: 'turn:a', code: null },
    { url: 'turn:a', code: 701 },
  ]);
});

test('a page that ends its worker ends all calls', () => {
  const { page, worker, dialled } = calls(true);
  for (let call = 0; call < 3; call++) worker.dial(CALL, listener().events);
  dialled[1]?.events.closed('gone');
  page.close();
  expect(dialled.map(({ isClosed }) => isClosed)).toEqual([true, false, true]);
});
