/**
 * `npm run release -- 0.2.0`: makes a release, and publishes nothing.
 *
 * The script sets the version, closes the section `Unreleased` of the changelog, and packs the package. Beside the
 * tarball it writes two bills of materials and checksums, with which a user can check the tarball. Then the script
 * commits and tags. `.github/workflows/release.yml` publishes the tagged commit, with a signed statement that names the
 * commit. `--dry-run` leaves the working copy as it is. `--of-tag 0.2.0` is for that CI workflow: it only makes the
 * files of a tagged commit.
 *
 * **Invariant:** the same commit makes the same tarball, byte for byte. The script packs twice and compares.
 */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkVersion, notesOf, releaseChangelog } from './release/changelog.mjs';
import { root, runGit, runNpm, runVisibly } from './run-command.mjs';

const manifest = join(root, 'packages', 'holdfast', 'package.json');
const versionFiles = [manifest, join(root, 'package-lock.json'), join(root, 'packages/holdfast/src/model/release.ts')];
const changelogFile = join(root, 'CHANGELOG.md');
const output = join(root, 'release');

async function main([first, ...rest]) {
  if (first === '--of-tag') return report(await filesOfTag(rest[0]));
  return release(first, rest.includes('--dry-run'));
}

async function release(version, dryRun) {
  const current = JSON.parse(readFileSync(manifest, 'utf8')).version;
  checkVersion(version, current);
  await checkWorkingCopy(version);
  const before = new Map([...versionFiles, changelogFile].map((file) => [file, readFileSync(file)]));
  try {
    setVersion(current, version);
    closeChangelog(version);
    if ((await runVisibly([join(root, 'scripts', 'check.mjs')])) !== 0)
      throw new Error('The checks failed; see above.');
    report(await makeFiles(version, releasedNotes(version)));
    if (!dryRun) await commitAndTag(version);
  } catch (error) {
    restore(before);
    throw error;
  }
  if (dryRun) restore(before);
  else console.log(`Tagged v${version}. To publish: git push --follow-tags`);
}

/** The working copy must be the tagged commit. Otherwise the files would contain another version under this name. */
function filesOfTag(version) {
  const current = JSON.parse(readFileSync(manifest, 'utf8')).version;
  if (version !== current) throw new Error(`This is version ${current}, not ${version}: check out the tag first.`);
  return makeFiles(version, releasedNotes(version));
}

function report(files) {
  console.log(`\n${['Made in release/:', ...files].join('\n  ')}\n`);
}

async function checkWorkingCopy(version) {
  const changed = (await git('status', '--porcelain')).trim();
  if (changed !== '') throw new Error(`Commit or discard these changes first:\n${changed}`);
  const branch = (await git('rev-parse', '--abbrev-ref', 'HEAD')).trim();
  if (branch !== 'main') throw new Error(`A release is made on the branch main; this is ${branch}.`);
  if ((await git('tag', '--list', `v${version}`)).trim() !== '') throw new Error(`The tag v${version} exists already.`);
}

function setVersion(current, version) {
  replaceIn(manifest, `"version": "${current}"`, `"version": "${version}"`);
  replaceIn(join(root, 'packages/holdfast/src/model/release.ts'), `'${current}'`, `'${version}'`);
  const lockfile = JSON.parse(readFileSync(versionFiles[1], 'utf8'));
  lockfile.packages['packages/holdfast'].version = version;
  writeFileSync(versionFiles[1], `${JSON.stringify(lockfile, null, 2)}\n`);
}

function closeChangelog(version) {
  const today = new Date().toISOString().slice(0, 10);
  writeFileSync(changelogFile, releaseChangelog(readFileSync(changelogFile, 'utf8'), version, today));
}

function releasedNotes(version) {
  return notesOf(readFileSync(changelogFile, 'utf8'), version);
}

/** @returns {Promise<string[]>} the names of the files in the folder `release` */
async function makeFiles(version, notes) {
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output);
  const temporary = mkdtempSync(join(tmpdir(), 'holdfast-release-'));
  try {
    const [first, second] = [await pack(join(temporary, 'first')), await pack(join(temporary, 'second'))];
    if (sha256(first) !== sha256(second)) throw new Error('Packing twice gave two different tarballs.');
    cpSync(first, join(output, `holdfast-${version}.tgz`));
    writeFileSync(join(output, 'notes.md'), `${notes}\n`);
    await writeBillsOfMaterials(first, join(temporary, 'holdfast'), version);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  const names = readdirSync(output).sort();
  const sums = names.map((name) => `${sha256(join(output, name))}  ${name}\n`);
  writeFileSync(join(output, 'SHA256SUMS'), sums.join(''));
  return [...names, 'SHA256SUMS'];
}

async function pack(folder) {
  mkdirSync(folder);
  await npm('pack', '--workspace=holdfast', `--pack-destination=${folder}`);
  return join(folder, readdirSync(folder)[0]);
}

/** The bills cover what a user installs: the package and its dependencies, without development dependencies. */
async function writeBillsOfMaterials(tarball, folder, version) {
  mkdirSync(folder);
  const { unpack } = await import('@publint/pack');
  const { files, rootDir } = await unpack(readFileSync(tarball));
  const packed = files.find(({ name }) => name === `${rootDir}/package.json`);
  const { devDependencies: _, ...installed } = JSON.parse(Buffer.from(packed.data).toString());
  writeFileSync(join(folder, 'package.json'), JSON.stringify(installed));
  const omit = ['--omit=dev', '--omit=peer', '--omit=optional'];
  await npm('install', '--ignore-scripts', ...omit, `--prefix=${folder}`);
  for (const [format, extension] of [
    ['cyclonedx', 'cdx.json'],
    ['spdx', 'spdx.json'],
  ]) {
    const bill = await npm('sbom', `--sbom-format=${format}`, ...omit, `--prefix=${folder}`, '--loglevel=error');
    writeFileSync(
      join(output, `holdfast-${version}.${extension}`),
      `${bill.slice(bill.indexOf('{'), bill.lastIndexOf('}') + 1)}\n`,
    );
  }
}

async function commitAndTag(version) {
  await git('commit', '--all', '--message', `Release ${version}`);
  await git('tag', '--annotate', `v${version}`, '--message', `Holdfast ${version}`);
}

function restore(files) {
  for (const [file, content] of files) writeFileSync(file, content);
}

function replaceIn(file, before, after) {
  const text = readFileSync(file, 'utf8');
  if (!text.includes(before)) throw new Error(`${file} does not contain ${before}.`);
  writeFileSync(file, text.replace(before, after));
}

function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

async function npm(...args) {
  const { ok, output: said } = await runNpm([...args, '--no-audit', '--no-fund']);
  if (!ok) throw new Error(`npm ${args[0]} failed:\n${said}`);
  return said;
}

async function git(...args) {
  const { ok, output: said } = await runGit(args);
  if (!ok) throw new Error(`git ${args[0]} failed:\n${said}`);
  return said;
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
