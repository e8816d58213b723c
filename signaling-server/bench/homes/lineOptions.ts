/** What commands over emulated homes are told of their lines. */
import type { Command } from 'commander';
import type { Result } from '../../../swarm/base.ts';
import { badInput, need } from '../../commands/failure.ts';
import { type Line, parseDelay, parseLoss, parseRate } from './line.ts';
import { NAT_KINDS, type NatKind } from './nat.ts';

export interface LineOptions {
  readonly upload?: number;
  readonly download?: number;
  readonly rtt?: number;
  readonly jitter?: number;
  readonly loss?: number;
  readonly nat?: readonly NatKind[];
}

const option =
  (name: string, parse: (text: string) => Result<number>) =>
  (text: string): number =>
    need(parse(text), (reason) => badInput(`${name}: ${reason}`));

/** Some of these names, separated by commas. */
export const names =
  <Name extends string>(name: string, known: readonly Name[], most: number) =>
  (text: string): readonly Name[] => {
    const said = text.split(',');
    if (said.length > most) throw badInput(`${name}: expected ${most} at most, not ${said.length}`);
    return said.map((one) => {
      const found = known.find((other) => other === one);
      if (found !== undefined) return found;
      throw badInput(`${name}: expected some of ${known.join(', ')}, not "${one}"`);
    });
  };

/** `upload`: what the command takes where nothing is said. */
export const addLineOptions = (command: Command, upload = '20Mbit'): Command =>
  command
    .option('--upload <rate>', `what a home’s line carries up (default: ${upload})`, option('--upload', parseRate))
    .option('--download <rate>', 'what it carries down (default: 100Mbit)', option('--download', parseRate))
    .option('--rtt <time>', 'from a home to the other and back (default: 50ms)', option('--rtt', parseDelay))
    .option('--jitter <time>', 'packets are late by up to so much more (default: 0ms)', option('--jitter', parseDelay))
    .option(
      '--loss <share>',
      'of the packets that are lost, such as 0.01 or 1% (default: 0)',
      option('--loss', parseLoss),
    )
    .option(
      '--nat <kinds>',
      `of the homes’ routers, one for both or one each with a comma between: ${NAT_KINDS.join(', ')} (default: none)`,
      names('--nat', NAT_KINDS, 2),
    );

export const lineOf = ({ upload = 20e6, download = 100e6, rtt = 50, jitter = 0, loss = 0 }: LineOptions): Line => ({
  ...{ uploadBitsPerSecond: upload, downloadBitsPerSecond: download },
  ...{ roundTripMs: rtt, jitterMs: jitter, loss },
});
