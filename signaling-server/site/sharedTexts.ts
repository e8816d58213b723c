/**
 * Texts that many donors are sent alike, which grow with the number of donors: each goes to a gateway once, and in a donor's
 * own pipe goes its number alone. Of those that wait to go there only the newest does.
 */
import { Buffer } from 'node:buffer';
import type { Pipe } from './pipe.ts';

const TEXT = 1;
const NUMBER_BYTES = 4;

function encodedNumber(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(NUMBER_BYTES);
  bytes.writeUInt32LE(number);
  return bytes;
}

const numberIn = (bytes: Buffer): number => (bytes.length < NUMBER_BYTES ? 0 : bytes.readUInt32LE());

interface Way {
  readonly pipe: Pipe;
  /** Of the text that was said there last. */
  number: number;
  isBusy: boolean;
}

/** Of the process that leads. */
export class SharedTexts {
  readonly #open: (process: string) => Pipe;
  readonly #ways = new Map<string, Way>();
  #text: Uint8Array = new Uint8Array(0);
  #number = 0;

  /** `open`: a pipe to a gateway for them. */
  constructor(open: (process: string) => Pipe) {
    this.#open = open;
  }

  /** Sees that the gateway has this text, or a newer one: answers with its number. The same text is the same object. */
  sayTo(process: string, text: Uint8Array): Buffer {
    if (text !== this.#text) {
      this.#text = text;
      this.#number += 1;
    }
    const way = this.#ways.get(process) ?? this.#wayTo(process);
    this.#say(way);
    return encodedNumber(this.#number);
  }

  #wayTo(process: string): Way {
    const way: Way = { pipe: this.#open(process), number: 0, isBusy: false };
    way.pipe.read({
      onMessage: (_kind, _message, taken) => taken(),
      onClosed: () => {
        if (this.#ways.get(process) === way) this.#ways.delete(process);
      },
    });
    this.#ways.set(process, way);
    return way;
  }

  #say(way: Way): void {
    if (way.isBusy || way.number === this.#number) return;
    way.isBusy = true;
    way.number = this.#number;
    way.pipe.send(TEXT, Buffer.concat([encodedNumber(this.#number), this.#text]), () => {
      way.isBusy = false;
      this.#say(way);
    });
  }
}

interface Awaiting {
  readonly number: number;
  readonly came: (text: Buffer) => void;
}

/** Of a gateway: the newest of them. */
export class HeardTexts {
  #pipe: Pipe | null = null;
  #number = 0;
  #text: Buffer | null = null;
  #awaiting: Awaiting[] = [];

  /** From now on they come through this pipe. */
  readFrom(pipe: Pipe): void {
    this.#pipe = pipe;
    pipe.read({
      onMessage: (_kind, message, taken) => {
        taken();
        if (this.#pipe === pipe) this.#came(numberIn(message), message.subarray(NUMBER_BYTES));
      },
      onClosed: () => {},
    });
  }

  /** Another process leads, whose numbers are others. */
  forget(): void {
    this.#pipe?.reset();
    this.#pipe = null;
    this.#number = 0;
    this.#text = null;
    this.#awaiting = [];
  }

  /** This one, or a newer one: now, or when it is here. */
  whenHere(number: Buffer, came: (text: Buffer) => void): void {
    const wanted = numberIn(number);
    if (this.#text !== null && this.#number >= wanted) came(this.#text);
    else this.#awaiting.push({ number: wanted, came });
  }

  #came(number: number, text: Buffer): void {
    this.#number = number;
    this.#text = text;
    const awaiting = this.#awaiting;
    this.#awaiting = [];
    for (const one of awaiting)
      if (one.number <= number) one.came(text);
      else this.#awaiting.push(one);
  }
}
