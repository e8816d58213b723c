export interface FoundBrowser {
  readonly path: string;
  readonly source: 'SHOAL_CHROMIUM' | 'PATH' | 'installed application' | 'Playwright';
}
export function findBrowser(): Promise<FoundBrowser | null>;
export function noBrowser(): string;
