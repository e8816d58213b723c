/** Whether a page's address is this computer's own, which no other one reaches. `host`: with its port, or without. Pure. */
export const isThisComputer = (host: string): boolean =>
  /^(localhost|127(\.\d+){3}|\[::1\]|.*\.localhost)$/i.test(host.replace(/:\d+$/, ''));
