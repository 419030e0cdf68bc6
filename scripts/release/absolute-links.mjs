import { posix } from 'node:path';

/**
 * Returns the text of a page of the repository with absolute links, for places such as npm that show the page without
 * the repository. Without a repository address, the links stay as they are.
 *
 * @param {string} text
 * @param {string | undefined} repository such as `https://example.org/holdfast/holdfast`
 */
export function absoluteLinks(text, repository) {
  if (!repository) return text;
  const base = `${repository.replace(/^git\+/, '').replace(/\.git$/, '')}/blob/main`;
  return text.replace(/\]\((?![a-z]+:|#)([^)\s]+)\)/g, (_, link) => `](${base}/${posix.normalize(link)})`);
}
