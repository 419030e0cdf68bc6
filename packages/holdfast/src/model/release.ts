/**
 * The version of the package. A test compares it with package.json. It is a constant because a bundle cannot read
 * package.json at run time.
 */
export const release = '0.1.0';
