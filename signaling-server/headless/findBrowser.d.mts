export const WEBGPU_SWITCHES: readonly string[];
export const HEADLESS_SWITCHES: readonly string[];
export interface FoundBrowser {
  readonly path: string;
  readonly source: 'SHOAL_CHROMIUM' | 'PATH' | 'installed application' | 'Playwright';
}
export function findBrowser(): Promise<FoundBrowser | null>;
export function noBrowser(): string;
