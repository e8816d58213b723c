/** Of several servers that begin a site one decides its run: another one's run file is not dropped without a word. */
import { readRunFile } from '../files/runFileOnDisk.ts';
import type { Log } from '../monitoring/log.ts';
import type { Store } from '../store/store.ts';

export class UnusedRunFile {
  readonly #store: Pick<Store, 'activeRun'>;
  readonly #log: Log;
  /** Null: there is none, or what there is to say about it is said. */
  #path: string | null;

  constructor(path: string | undefined, store: Pick<Store, 'activeRun'>, log: Log) {
    this.#path = path ?? null;
    this.#store = store;
    this.#log = log;
  }

  /** Says, once, that the site trains another run than the file's. Called when another server's choice stands. */
  look(): void {
    const path = this.#path;
    const active = this.#store.activeRun();
    if (path === null || active === null) return;
    this.#path = null;
    void readRunFile(path).then((read) => {
      if (!read.ok) this.#log('warn', `${path} is not used: the site trains ${active.name}, and ${read.reason}`);
      else if (read.value.name !== active.name)
        this.#log(
          'warn',
          `${path} is not used: the site trains ${active.name}; to train ${read.value.name}, add it on the dashboard (New run) or take another --site`,
        );
    });
  }
}
