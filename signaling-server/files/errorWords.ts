/** What an error says, for a sentence about it. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** On one line. */
export const onOneLine = (error: unknown): string => messageOf(error).replace(/\s+/g, ' ');
