/** Under which it is said, once, that work of another version waits for a process of that. */
export function otherVersion(version: string): string {
  return `work of version ${version}`;
}
