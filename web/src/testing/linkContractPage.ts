/** The contract of `Link` on simple-peer, for a page of the end-to-end tests: the browser's own data channels carry it. */
import { openSimplePeerLink } from '../net/link.ts';
import { LINK_CONTRACT } from './linkContract.ts';

declare global {
  interface Window {
    /** Resolves where the case holds, rejects with what does not. */
    runLinkCase(title: string): Promise<void>;
  }
}

window.runLinkCase = async (title) => {
  await LINK_CONTRACT.find((each) => each.title === title)?.run(openSimplePeerLink);
};
