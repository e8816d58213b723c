export const WEBGPU_SWITCHES: readonly string[];
export const HEADLESS_SWITCHES: readonly string[];
export interface FoundBrowser {
  readonly path: string;
  readonly source: 'SHOAL_CHROMIUM' | 'PATH' | 'installed application' | 'Playwright';
}
export function findBrowser(): Promise<FoundBrowser | null>;
export function noBrowser(): string;
export interface FoundFirefox {
  readonly path: string;
  readonly source: 'SHOAL_FIREFOX' | 'PATH' | 'installed application';
}
export function findFirefox(): FoundFirefox | null;
export function noFirefox(): string;
