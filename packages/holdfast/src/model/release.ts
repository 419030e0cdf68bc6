/** The version in package.json, which a test holds it to: nothing of the package can be read at run time from a bundle. */
export const release = '0.1.0';
