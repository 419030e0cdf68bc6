/** Owns what a release changes in CHANGELOG.md, and which version may follow another version. */

const unreleased = '## [Unreleased]';

/**
 * Gives the section `Unreleased` the version and the date, and adds an empty section `Unreleased` above it.
 * @param {string} changelog
 * @param {string} version
 * @param {string} date as 2026-11-19
 * @returns {string} the new text
 */
export function releaseChangelog(changelog, version, date) {
  const notes = sectionOf(changelog, unreleased);
  if (notes === undefined) throw new Error(`CHANGELOG.md has no section "${unreleased}".`);
  if (notes === '') throw new Error('The section "Unreleased" of CHANGELOG.md is empty: there is nothing to release.');
  return changelog.replace(`\n${unreleased}\n`, `\n${unreleased}\n\n## [${version}] - ${date}\n`);
}

/**
 * @param {string} changelog
 * @param {string} version
 * @returns {string} the notes of that release
 */
export function notesOf(changelog, version) {
  const notes = sectionOf(changelog, `## [${version}]`);
  if (!notes) throw new Error(`CHANGELOG.md has no section for ${version}.`);
  return notes;
}

/** Returns the text below a heading, up to the next version. */
function sectionOf(changelog, heading) {
  const at = changelog.indexOf(`\n${heading}`);
  if (at < 0) return undefined;
  const start = changelog.indexOf('\n', at + 1);
  const next = changelog.indexOf('\n## [', start);
  return changelog.slice(start, next < 0 ? undefined : next).trim();
}

/**
 * Throws if the version cannot be released next.
 * @param {string} version the version to release
 * @param {string} current version of the package
 */
export function checkVersion(version, current) {
  const parts = /^(\d+)\.(\d+)\.(\d+)(?:-([a-z]+)\.(\d+))?$/.exec(version ?? '');
  if (!parts) throw new Error(`"${version}" is no version. Run, for example: npm run release -- 0.2.0 (or 0.2.0-rc.1)`);
  if (compare(version, current) <= 0)
    throw new Error(`${version} does not come after ${current}, the version of the package.`);
}

/** A release candidate comes before its release. */
function compare(a, b) {
  const [left, right] = [a, b].map((each) => {
    const [numbers, candidate] = each.split('-');
    const ofCandidate = candidate === undefined ? [1, '', 0] : [0, ...candidate.split('.')];
    return [...numbers.split('.').map(Number), ofCandidate[0], ofCandidate[1], Number(ofCandidate[2])];
  });
  const differs = left.findIndex((part, i) => part !== right[i]);
  if (differs < 0) return 0;
  return left[differs] < right[differs] ? -1 : 1;
}
