import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { errorCodes } from '../../src/model/errors.js';

const page = await readFile(new URL('../../../../docs/errors.md', import.meta.url), 'utf8');
const sections = page.split(/^## /m).slice(1);
const titles = sections.map((section) => section.slice(0, section.indexOf('\n')));

it('docs/errors.md has one section per error code, in alphabetical order, and no others', () => {
  expect(titles).toEqual(Object.keys(errorCodes).sort());
});

it.each(sections.map((section, i) => [titles[i], section]))(
  '%s has what happened, what to do, and an example',
  (_, section) => {
    expect(section).toContain('**What happened:** ');
    expect(section).toContain('**What to do:** ');
    expect(section).toMatch(/^> \S/m);
  },
);
