/** Donors' WebSockets at a gateway, of which leaders come and go. */
import { Buffer } from 'node:buffer';
import { EventEmitter } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import type { HeldWire } from '../donors/door.ts';
import type { Exchange } from './exchange.ts';
import { HeldDonors } from './heldDonors.ts';
import { Line } from './line.ts';
import { Pipe } from './pipe.ts';

const held: HeldDonors[] = [];
afterEach(() => {
  for (const donors of held.splice(0)) donors.close();
});

class Wire extends EventEmitter {
  readonly sent: string[] = [];
  send(data: Uint8Array): void {
    this.sent.push(Buffer.from(data).toString());
  }
  says(text: string): void {
    this.emit('message', Buffer.from(text), false);
  }
  pause(): void {}
  resume(): void {}
  terminate(): void {
    this.emit('close', 1006);
  }
}

function gateway() {
  /** To whom pipes were opened, and what went through the last one. */
  const opened: string[] = [];
  const said: string[] = [];
  const exchange = {
    process: 'here',
    open: (process: string) => {
      opened.push(process);
      const say = (...pieces: readonly Uint8Array[]) => void said.push(Buffer.concat(pieces).toString('latin1'));
      return new Pipe(
        say,
        () => {},
        () => 0,
        new Line(),
      );
    },
  } as unknown as Exchange;
  const donors = new HeldDonors(exchange, null);
  held.push(donors);
  const wire = new Wire();
  donors.came(wire as unknown as HeldWire, { address: 'a', isHere: false, bytesRead: () => 0 });
  return { donors, wire, opened, said };
}

const HELLO = JSON.stringify({ type: 'hello' });
const AGAIN = JSON.stringify({ type: 'helloAgain' });

test('[NA2] a hello that was asked for and comes while nobody leads is asked for again by the next one to lead', () => {
  const { donors, wire, opened, said } = gateway();
  donors.follow('one');
  wire.says(HELLO);
  donors.follow(null);
  donors.follow('two');
  expect(wire.sent).toEqual([AGAIN]);
  donors.follow(null);
  wire.says(HELLO);
  expect(opened).toEqual(['one']);
  donors.follow('three');
  expect(wire.sent).toEqual([AGAIN, AGAIN]);
  wire.says(HELLO);
  expect(opened).toEqual(['one', 'three']);
  expect(said.at(-1)).toContain(HELLO);
});
