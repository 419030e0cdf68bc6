import { expect, it } from 'vitest';
import { didYouMean } from './suggest.js';

it.each([
  ['emial', ['emails', 'email', 'orders'], 'email'],
  ['Q', ['q', 'r'], 'q'],
  ['wff', ['wf'], 'wf'],
  ['ab', ['ac'], 'ac'],
  ['retry', ['retries', 'timeout'], 'retries'],
  ['queues', ['query', 'queue'], 'queue'],
])('suggests the name that was probably meant by %j', (given, known, meant) => {
  expect(didYouMean(given, known)).toBe(` Did you mean "${meant}"?`);
});

it.each([
  ['q', ['a', 'b', 'ab']],
  ['ab', ['cd', 'xyz']],
  ['abc', ['xyc']],
  ['', ['a']],
  ['orders', ['emails']],
])('suggests nothing if the known names have little in common with %j', (given, known) => {
  expect(didYouMean(given, known)).toBe('');
});
