/** What a process of a site is called: a part of subjects of NATS, which takes nothing else there. */
export const isProcessName = (name: string): boolean => /^[\w-]{1,64}$/.test(name);
