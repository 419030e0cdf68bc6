import { vi } from 'vitest';

type Package = typeof import('../../src/index.js');

/** Loads another copy of the package in this process, as a bundler creates one: the same code, no shared modules. */
export async function anotherCopy(): Promise<Package> {
  vi.resetModules();
  return import('../../src/index.js');
}

/** Loads another copy of one module of the package. */
export async function anotherCopyOf<Module>(load: () => Promise<Module>): Promise<Module> {
  vi.resetModules();
  return load();
}

/** Loads a copy of the package as another release, which shares nothing with this one. */
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
