/** The run's files, with what goes to and comes from the server counted, and held back by the donor's caps, as all traffic is. */
import type { Meter } from './meter.ts';
import type { RunFiles } from './runFiles.ts';
import type { Traffic } from './traffic.ts';

export function meteredFiles(files: RunFiles, meter: Meter, traffic: Traffic): RunFiles {
  const received = async <T extends { readonly byteLength: number }>(coming: Promise<T>): Promise<T> => {
    const bytes = await coming;
    meter.received(bytes.byteLength);
    meter.ofFile(bytes.byteLength);
    await traffic.fetched(bytes.byteLength);
    return bytes;
  };
  return {
    tokenShard: (hash) => received(files.tokenShard(hash)),
    state: (checkpoint, block, kind, range) => received(files.state(checkpoint, block, kind, range)),
    upload: async (state, of, signal) => {
      await traffic.maySend(null, state.byteLength);
      meter.sent(state.byteLength);
      meter.ofFile(state.byteLength);
      return files.upload(state, of, signal);
    },
  };
}
