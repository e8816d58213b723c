/** Arithmetic of seconds in main memory: it stops every few milliseconds, since the same thread sends heartbeats. */

/** Elements of islands that are worked on at a time. Who says nothing for seconds is taken for gone. */
const SLICE = 250_000;

export class LongWork {
  #sinceTask = 0;

  /** So many elements are done. Now and then everything else that waits has its turn. */
  async did(elements: number): Promise<void> {
    this.#sinceTask += elements;
    if (this.#sinceTask < SLICE) return;
    this.#sinceTask = 0;
    await nextTask();
  }
}

/** Not by a timer: browsers make repeated ones wait for milliseconds. */
async function nextTask(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const arrived = new Promise((resolve) => {
    port1.onmessage = resolve;
  });
  port2.postMessage(null);
  await arrived;
  port1.close();
}
