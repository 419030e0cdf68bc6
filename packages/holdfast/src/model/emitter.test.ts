import { expect, it } from 'vitest';
import { Emitter } from './emitter.js';

it('an event reaches every listener of its name, until the listener is removed', () => {
  const events = new Emitter<{ added: number; removed: string }>();
  const received: unknown[] = [];
  const stop = events.on('added', (value) => received.push(value));
  events.on('added', (value) => received.push(value * 10));
  events.on('removed', (value) => received.push(value));
  events.emit('added', 1);
  stop();
  events.emit('added', 2);
  events.emit('removed', 'a');
  expect(received).toEqual([1, 10, 20, 'a']);
});

it('an event without a listener is no error', () => {
  expect(() => new Emitter<{ added: number }>().emit('added', 1)).not.toThrow();
});
