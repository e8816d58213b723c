export function testWordsProblem(words: readonly string[], lanes: readonly string[]): Promise<string | null>;
