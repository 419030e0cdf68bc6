import { describe, expect, it } from 'vitest';
import { OutgoingNews } from './outgoing-news.js';

describe('outgoing topics', () => {
  it('are announced at once, and again after 10 ms', () => {
    const outgoing = new OutgoingNews<string>();
    outgoing.add('a');
    expect(outgoing.takeDue(0)).toEqual(['a']);
    outgoing.add('a');
    expect(outgoing.takeDue(9)).toEqual([]);
    expect(outgoing.isEmpty).toBe(false);
    expect(outgoing.takeDue(10)).toEqual(['a']);
    expect(outgoing.isEmpty).toBe(true);
  });

  it('are announced less often while they are added all the time, and at the usual rate after that', () => {
    const outgoing = new OutgoingNews<string>();
    const times: number[] = [];
    for (let now = 0; now < 160; now += 5) {
      outgoing.add('a');
      if (outgoing.takeDue(now).length > 0) times.push(now);
    }
    expect(times).toEqual([0, 10, 30, 70, 110, 150]);
    expect(outgoing.takeDue(200)).toEqual(['a']);
    expect(outgoing.takeDue(300)).toEqual([]);
    for (const now of [300, 310]) {
      outgoing.add('a');
      expect(outgoing.takeDue(now)).toEqual(['a']);
    }
  });

  it('do not wait for other topics', () => {
    const outgoing = new OutgoingNews<string>();
    for (const now of [0, 10, 30]) {
      for (let n = 0; n < 3; n++) outgoing.add('fast');
      expect(outgoing.takeDue(now)).toEqual(['fast']);
    }
    outgoing.add('fast');
    outgoing.add('other');
    expect(outgoing.takeDue(40)).toEqual(['other']);
    expect(outgoing.takeAll()).toEqual(['fast']);
    expect(outgoing.isEmpty).toBe(true);
  });
});
