/**
 * A donor that lies, done from outside as anyone could who opens the tools of a browser: on the way to the network one
 * element of each activation and each gradient becomes NaN. What the page itself makes of its tensors stays as it is.
 */
import type { DonorTab } from './donorTab.ts';

/** From this step on; alone in its run, where nothing is sent, of its loss. Resolves when the first one is. */
export const sendNaN = (tab: Pick<DonorTab, 'evaluate' | 'evaluateInWorker'>, firstStep: number): Promise<boolean> =>
  // Whichever of them sends: the worker has the channels, where the browser lets them go, and the page the server's socket.
  Promise.race([tab.evaluate(spoilWhatIsSent, firstStep), tab.evaluateInWorker(spoilWhatIsSent, firstStep)]);

/** Runs in the page and in its worker, and knows nothing but what is in them. A frame's header is in swarm/messages/frame.ts. */
function spoilWhatIsSent(firstStep: number): Promise<boolean> {
  const [ACTIVATION, GRADIENT, SLICE, HELD_OUT] = [0, 1, 2, 4];
  const HEADER_BYTES = 32;
  /** No number as a float32, and in its low half none as a float16. */
  const NAN_BITS = 0x7fc07e00;
  return new Promise((resolve) => {
    let newest = -1;
    const spoil = (data: unknown, frameAt: (bytes: Uint8Array) => number): void => {
      const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data instanceof Uint8Array ? data : null;
      if (bytes === null) return;
      const from = frameAt(bytes);
      if (from < 0 || bytes.length < from + HEADER_BYTES + 4 || bytes[from] !== 1) return;
      const view = new DataView(bytes.buffer, bytes.byteOffset + from);
      const [kind, step, offset] = [view.getUint8(1) & 15, view.getUint32(8, true), view.getUint32(24, true)];
      if (![ACTIVATION, GRADIENT, SLICE, HELD_OUT].includes(kind) || step < firstStep || offset !== 0) return;
      view.setUint32(HEADER_BYTES, NAN_BITS, true);
      newest = step;
      resolve(true);
    };
    const spoilReport = (text: string): string => {
      if (!text.startsWith('{"type":"report"')) return text;
      const report = JSON.parse(text) as { step: number; losses: { lossSum: number | null }[] };
      const [loss] = report.losses;
      if (report.step < firstStep || newest >= report.step || loss === undefined) return text;
      loss.lossSum = null;
      resolve(true);
      return JSON.stringify(report);
    };
    if ('RTCDataChannel' in globalThis) {
      const channel = RTCDataChannel.prototype;
      const sendByChannel = channel.send as (this: RTCDataChannel, data: unknown) => void;
      channel.send = function send(this: RTCDataChannel, data: unknown): void {
        spoil(data, () => 0);
        sendByChannel.call(this, data);
      };
    }
    const socket = WebSocket.prototype;
    const sendBySocket = socket.send as (this: WebSocket, data: unknown) => void;
    socket.send = function send(this: WebSocket, data: unknown): void {
      // An envelope: version, kind (0: a frame), length of the name, the name.
      spoil(data, (bytes) => (bytes[1] === 0 ? 3 + (bytes[2] ?? 0) : -1));
      sendBySocket.call(this, typeof data === 'string' ? spoilReport(data) : data);
    };
  });
}
