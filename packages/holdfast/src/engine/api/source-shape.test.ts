import { describe, expect, it } from 'vitest';
import { sourceShape } from './source-shape.js';

const minified = 'async e=>{let t=await(0,r.eF)("charge",()=>i(e,5));return t}';

describe('sourceShape', () => {
  it('is equal for two copies of a function with different names and white space', () => {
    expect(sourceShape('async t=>{let n=await(0,a.Ab)("charge",()=>o(t,5));return n}')).toBe(sourceShape(minified));
    expect(sourceShape('(x) => run2("a", () => x)')).toBe(sourceShape('(x)=>run( "a", ()=>x )'));
  });

  it.each([
    ['text', minified.replace('charge', 'refund')],
    ['number', minified.replace('5', '6')],
    ['operator', minified.replace('e,5', 'e+5')],
    ['call', minified.replace('await(0,r.eF)', 'await(0,r.eF)()')],
    ['statement', minified.replace('return t', 'await s();return t')],
  ])('differs if a %s differs', (_, edited) => {
    expect(sourceShape(edited)).not.toBe(sourceShape(minified));
  });
});
