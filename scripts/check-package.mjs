/**
 * Packs packages/holdfast as npm would publish it, and checks the tarball: its entry points (publint) and its contents.
 *
 * **Invariant:** a user receives built JavaScript (as ES modules and as CommonJS), its types, the README and the
 * license. A user receives no tests, no source maps, and no paths of the machine that built the package.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpack } from '@publint/pack';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { root, runNpm } from './run-command.mjs';

const required = [
  'package.json',
  'README.md',
  'LICENSE',
  'NOTICE',
  'dist/index.js',
  'dist/index.d.ts',
  'dist/cjs/package.json',
];
const expected = /^(package\.json|README\.md|LICENSE|NOTICE|dist\/.+\.(js|d\.ts)|dist\/cjs\/package\.json)$/;
const testFile = /(^|\/)(test|tests|__tests__)\/|\.test(-d)?\./;

async function main() {
  const destination = mkdtempSync(join(tmpdir(), 'holdfast-pack-'));
  try {
    const packed = await runNpm(['pack', '--workspace=holdfast', `--pack-destination=${destination}`]);
    const complaints = packed.ok ? await complaintsAbout(destination) : [packed.output];
    for (const complaint of complaints) console.log(complaint);
    if (complaints.length > 0) process.exitCode = 1;
  } finally {
    rmSync(destination, { recursive: true, force: true });
  }
}

async function complaintsAbout(destination) {
  const [name] = readdirSync(destination);
  const tarball = readFileSync(join(destination, name));
  const { files, rootDir } = await unpack(tarball);
  const inside = files.map(({ name, data }) => ({ name: name.slice(rootDir.length + 1), data }));
  console.log(`${name}: ${inside.length} files, ${Math.round(tarball.length / 1024)} kB`);
  return [...contentComplaints(inside), ...(await publintComplaints(tarball))];
}

function contentComplaints(files) {
  const names = new Set(files.map(({ name }) => name));
  const holdsPath = ({ data }) => Buffer.from(data).includes(root);
  return [
    ...required.filter((name) => !names.has(name)).map((name) => `${name} is missing from the tarball`),
    ...[...names].filter((name) => !expected.test(name)).map((name) => `${name} does not belong in the tarball`),
    ...[...names].filter((name) => testFile.test(name)).map((name) => `${name} is a test: exclude it from the build`),
    ...files.filter(holdsPath).map(({ name }) => `${name} contains the path of this working copy`),
  ];
}

async function publintComplaints(tarball) {
  const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(tarball).buffer }, strict: true });
  return messages.map((message) => `publint ${message.type}: ${formatMessage(message, pkg, { color: false })}`);
}

await main();
