/**
 * What this browser says about itself before anything starts: which one it is, whether it is a phone's, and whether it
 * has a GPU. Looking opens no device and computes nothing. What to do where there is none is a table, browser by browser.
 */
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import { adapterProfile } from '../gpu/device.ts';
import { type LocalNetwork, queryPermission, seeLocalNetwork } from './localNetwork.ts';

/** unknown: not asked yet. */
export type GpuFound =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'found'; readonly adapter: AdapterProfile }
  | { readonly kind: 'missing'; readonly why: 'insecure' | 'noWebGpu' | 'noAdapter' };

const BROWSERS = ['Edge', 'Firefox', 'Chrome', 'Safari'] as const;
export type BrowserName = (typeof BROWSERS)[number];

export interface Machine {
  readonly gpu: GpuFound;
  readonly browser: BrowserName | null;
  readonly isPhone: boolean;
  readonly localNetwork: LocalNetwork;
}

export const UNKNOWN_MACHINE: Machine = {
  gpu: { kind: 'unknown' },
  browser: null,
  isPhone: false,
  localNetwork: 'open',
};

/** What to do for a GPU that the browser does not give. */
export const GPU_ADVICE: Readonly<Record<BrowserName, string>> = {
  Chrome:
    'Version 113 or later. Settings, System: switch on “Use graphics acceleration when available”, then restart Chrome. chrome://gpu says under WebGPU what is missing; on Linux Chrome has it by itself on some Intel GPUs only: elsewhere switch on chrome://flags/#enable-unsafe-webgpu and chrome://flags/#enable-vulkan.',
  Edge: 'Version 113 or later. Settings, System and performance: switch on “Use graphics acceleration when available”, then restart Edge. edge://gpu says under WebGPU what is missing.',
  Firefox:
    'Version 141 or later on Windows, 145 or later on macOS. Settings, General, Performance: hardware acceleration on. about:support says under Graphics what is missing; elsewhere about:config has dom.webgpu.enabled.',
  Safari: 'Version 26 or later, which comes with macOS 26, iOS 26 and iPadOS 26. Update the system.',
};

/** Every Chromium names Chrome and Safari too, Edge names all three. */
const TOKENS: Readonly<Record<BrowserName, RegExp>> = {
  Edge: /\bEdgA?\//,
  Firefox: /\b(Firefox|FxiOS)\//,
  Chrome: /\b(Chrome|CriOS|HeadlessChrome)\//,
  Safari: /\bSafari\//,
};

export function browserOf(userAgent: string): BrowserName | null {
  return BROWSERS.find((name) => TOKENS[name].test(userAgent)) ?? null;
}

/** Phones and tablets: small batteries, no fan. */
export const isPhone = (userAgent: string): boolean => /\b(Mobi\w*|Android|iPhone|iPad)\b/.test(userAgent);

/** Asks the browser; opens nothing. */
export async function seeMachine({ userAgent, gpu }: Navigator, isSecure: boolean): Promise<Machine> {
  const localNetwork = await seeLocalNetwork(queryPermission);
  const seen = { browser: browserOf(userAgent), isPhone: isPhone(userAgent), localNetwork };
  if (!isSecure) return { ...seen, gpu: { kind: 'missing', why: 'insecure' } };
  if ((gpu as GPU | undefined) === undefined) return { ...seen, gpu: { kind: 'missing', why: 'noWebGpu' } };
  try {
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter) return { ...seen, gpu: { kind: 'missing', why: 'noAdapter' } };
    const profile = adapterProfile(adapter.info, userAgent);
    return { ...seen, gpu: { kind: 'found', adapter: profile } };
  } catch {
    return { ...seen, gpu: { kind: 'missing', why: 'noAdapter' } };
  }
}
