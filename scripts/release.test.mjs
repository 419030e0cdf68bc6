import { describe, expect, it } from 'vitest';
import { absoluteLinks } from './release/absolute-links.mjs';
import { checkVersion, notesOf, releaseChangelog } from './release/changelog.mjs';

const before = `# Changelog

## [Unreleased]

### Added

- queues

## [0.1.0] - 2026-01-01

- first
`;

describe('the changelog of a release', () => {
  it('gives the unreleased section the version and the date, and begins a new section', () => {
    const changelog = releaseChangelog(before, '0.2.0', '2026-11-19');
    expect(changelog).toBe(before.replace('## [Unreleased]\n', '## [Unreleased]\n\n## [0.2.0] - 2026-11-19\n'));
    expect(notesOf(changelog, '0.2.0')).toBe('### Added\n\n- queues');
    expect(notesOf(changelog, '0.1.0')).toBe('- first');
  });

  it('is refused if there is nothing to release', () => {
    const released = releaseChangelog(before, '0.2.0', '2026-11-19');
    expect(() => notesOf(released, '0.3.0')).toThrow(/no section for 0.3.0/);
    expect(() => releaseChangelog(released, '0.3.0', '2026-11-20')).toThrow(/nothing to release/);
    expect(() => releaseChangelog('# Changelog\n', '0.3.0', '2026-11-20')).toThrow(/no section/);
  });
});

describe('the version of a release', () => {
  it.each([
    ['0.2.0', '0.1.0'],
    ['0.10.0', '0.9.9'],
    ['1.0.0-rc.1', '0.9.0'],
    ['1.0.0-rc.10', '1.0.0-rc.9'],
    ['1.0.0', '1.0.0-rc.10'],
  ])('%s may follow %s', (version, current) => {
    expect(() => checkVersion(version, current)).not.toThrow();
    expect(() => checkVersion(current, version)).toThrow(/does not come after/);
    expect(() => checkVersion(current, current)).toThrow(/does not come after/);
  });

  it.each([undefined, '', '1.0', 'v1.0.0', '1.0.0-rc', '1.0.0+build'])('refuses %s', (version) => {
    expect(() => checkVersion(version, '0.1.0')).toThrow(/is no version/);
  });
});

describe('the README in the package', () => {
  const text = '[docs](docs/README.md), [errors](docs/errors.md#no), [top](#top), [site](https://example.org)';

  it('has absolute links if the package names its repository', () => {
    expect(absoluteLinks(text, 'git+https://example.org/holdfast.git')).toBe(
      '[docs](https://example.org/holdfast/blob/main/docs/README.md), ' +
        '[errors](https://example.org/holdfast/blob/main/docs/errors.md#no), [top](#top), [site](https://example.org)',
    );
  });

  it('keeps its links if the package names no repository', () => {
    expect(absoluteLinks(text, undefined)).toBe(text);
  });
});
