import { vi } from 'vitest';

type Package = typeof import('../../src/index.js');

/** Another copy of the package in this process, as a bundler makes one: the same code, and no module of it shared. */
export async function anotherCopy(): Promise<Package> {
  vi.resetModules();
  return import('../../src/index.js');
}

/** The same for a module of it. */
export async function anotherCopyOf<Module>(load: () => Promise<Module>): Promise<Module> {
  vi.resetModules();
  return load();
}

/** A copy of another release, which shares nothing with ours. */
export async function anotherRelease(): Promise<Package> {
  vi.resetModules();
  vi.doMock('../../src/model/release.js', () => ({ release: '9.9.9' }));
  try {
    return await import('../../src/index.js');
  } finally {
    vi.doUnmock('../../src/model/release.js');
    vi.resetModules();
  }
}
