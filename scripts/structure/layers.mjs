/**
 * The rule of the layers: a file imports files of its own folder and of lower levels, but not of higher levels or of
 * other folders of its level.
 *
 * Two related rules: database drivers are imported only in storage/, and SQL is written only in storage/.
 */
import { posix } from 'node:path';

/** The folders of packages/holdfast/src, lowest level first. Folders of one level never import each other. */
const levels = [
  ['model'],
  ['codec'],
  ['storage'],
  ['engine'],
  ['messaging', 'queues', 'schedules', 'recovery', 'management', 'transactions', 'classes'],
  ['app', 'client'],
  ['testing'],
  ['admin', 'conductor', 'cli'],
];

const library = 'packages/holdfast/src/';

/** The only files of storage/ that code above it imports: the contract, and the entrances to both databases. */
const storageEntrances = /^storage\/(contract\/[\w-]+|open|open-datasource)\.js$/;
const drivers = /^(pg|pg-[\w-]+|better-sqlite3|node:sqlite)(\/|$)/;
const sql = new RegExp(
  [
    String.raw`(?:^|[(;\n])\s*(?:explain\s+)?(?:`,
    String.raw`select\b[^;]+\bfrom\s+\S`,
    String.raw`|insert\s+(?:or\s+\w+\s+)?into\s+\S`,
    String.raw`|update\s+\S+\s+(?:as\s+\w+\s+)?set\s+\S`,
    String.raw`|delete\s+from\s+\S`,
    String.raw`|(?:create|alter|drop)\s+(?:unique\s+)?(?:table|index|schema|function|view)\b`,
    ')',
  ].join(''),
  'i',
);

/** Tests are beside the code that they test and may import everything, so only their size is checked. */
const isTest = (path) => /\.(test|test-d)\.[cm]?tsx?$/.test(path);

/** @param {import('./source-file.mjs').SourceFile[]} files */
export function layerViolations(files) {
  const judged = files.filter((file) => file.path.startsWith(library) && !isTest(file.path));
  return judged.flatMap((file) => {
    const folder = folderOf(file.path);
    if (folder === null) return rootViolations(file);
    if (levelOf(folder) < 0) return [unknownFolder(file, folder)];
    const found = file.imports.map((entry) => importViolation(file, folder, entry));
    return [...found, ...borderViolations(file, folder)].filter((violation) => violation !== null);
  });
}

/** Returns the layer folder of a path in the library, or null for a file in src itself. */
function folderOf(path) {
  const [first, ...rest] = path.slice(library.length).split('/');
  return rest.length > 0 ? first : null;
}

function levelOf(folder) {
  return levels.findIndex((level) => level.includes(folder));
}

function rootViolations(file) {
  if (file.path === `${library}index.ts`) return borderViolations(file, 'index.ts');
  return [
    {
      path: file.path,
      line: 1,
      what: 'file outside the layers',
      advice: 'Only index.ts lives in src itself. Move this file into the folder of its layer.',
    },
  ];
}

function unknownFolder(file, folder) {
  return {
    path: file.path,
    line: 1,
    what: `${folder}/ is not a layer`,
    advice: 'Move the file into an existing folder, or give the new folder its level in scripts/structure/layers.mjs.',
  };
}

function importViolation(file, folder, { specifier, line }) {
  const at = { path: file.path, line };
  if (specifier === 'holdfast' || specifier.startsWith('holdfast/')) {
    return { ...at, what: `imports its own package as '${specifier}'`, advice: 'Import the file that owns the name.' };
  }
  if (!specifier.startsWith('.')) return null;
  const target = posix.join(posix.dirname(file.path), specifier);
  if (!target.startsWith(library)) {
    return {
      ...at,
      what: `imports '${specifier}' from outside src`,
      advice: 'The package holds only src: move it there.',
    };
  }
  const targetFolder = folderOf(target);
  const isAboveStorage = levelOf(folder) > levelOf('storage');
  if (targetFolder === 'storage' && isAboveStorage && !storageEntrances.test(target.slice(library.length))) {
    return {
      ...at,
      what: `imports '${specifier}', the inside of storage/`,
      advice: 'Import the contract (storage/contract), storage/open.js or storage/open-datasource.js.',
    };
  }
  if (targetFolder === null) {
    return { ...at, what: `imports '${specifier}', the front door`, advice: 'Import the file that owns the name.' };
  }
  return directionViolation(at, folder, targetFolder);
}

function directionViolation(at, folder, target) {
  if (target === folder || levelOf(target) < 0) return null; // an unknown folder is reported once, at its own files
  const climb = levelOf(target) - levelOf(folder);
  if (climb < 0) return null;
  if (climb === 0) {
    return {
      ...at,
      what: `${folder}/ imports ${target}/, its neighbour`,
      advice: 'Move what both need down to a lower layer, or join the two in app/.',
    };
  }
  return {
    ...at,
    what: `${folder}/ imports ${target}/, which is above it`,
    advice: `Move what is needed down, or let ${target}/ pass it in.`,
  };
}

function borderViolations(file, folder) {
  if (folder === 'storage') return [];
  const driverImports = file.imports.filter(({ specifier }) => drivers.test(specifier));
  const statements = file.texts.filter(({ text }) => sql.test(text));
  return [
    ...driverImports.map(({ specifier, line }) => ({
      path: file.path,
      line,
      what: `imports the database driver ${specifier}`,
      advice: 'Drivers are known in storage/ only. Use the Storage contract.',
    })),
    ...statements.map(({ line }) => ({
      path: file.path,
      line,
      what: 'SQL outside storage/',
      advice: 'Give the noun a method in the Storage contract (if this is prose, word it differently).',
    })),
  ];
}
