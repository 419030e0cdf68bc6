/** The limits of file and function size, for code and tests. There is deliberately no list of exemptions. */
const maxFileLines = 400;
const maxFunctionLines = 60;

/** @param {import('./source-file.mjs').SourceFile[]} files */
export function sizeViolations(files) {
  return files.flatMap((file) => [...fileTooLong(file), ...functionsTooLong(file)]);
}

function fileTooLong({ path, lineCount }) {
  if (lineCount <= maxFileLines) return [];
  return [
    {
      path,
      line: maxFileLines + 1,
      what: `file of ${lineCount} lines (at most ${maxFileLines})`,
      advice: 'It owns more than one thing: give the second its own file.',
    },
  ];
}

function functionsTooLong({ path, functions }) {
  return functions
    .filter(({ length }) => length > maxFunctionLines)
    .map(({ name, line, length }) => ({
      path,
      line,
      what: `${name} has ${length} lines (at most ${maxFunctionLines})`,
      advice: 'Name its stages and make each a function.',
    }));
}
