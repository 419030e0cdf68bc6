/**
 * A topic may carry a note, after a line break: `queue:orders\n[...]`. Processes of an older release, which know no notes,
 * get the topic alone; a note without a topic is not for them. Only what has a key may contain a line break of its own, and that
 * carries no note.
 */
export function withNote(topic: string, note: string): string {
  return `${topic}\n${note}`;
}

/** Topics with a key: a workflow ID, and the name of a topic, event or stream, may be any text. */
const hasKey = /^(?:message|event|stream):/;

export function splitNote(text: string): { readonly topic: string; readonly note: string | undefined } {
  const at = hasKey.test(text) ? -1 : text.indexOf('\n');
  return at < 0 ? { topic: text, note: undefined } : { topic: text.slice(0, at), note: text.slice(at + 1) };
}

/** Topics as they are sent: `topics` is for every release, `notes` repeats those that carry one. */
export interface SentTopics {
  readonly topics: readonly string[];
  readonly notes?: readonly string[];
}

export function toSent(all: readonly string[]): SentTopics {
  const notes = all.filter((each) => splitNote(each).note !== undefined);
  const topics = [...new Set(all.map((each) => splitNote(each).topic))].filter((topic) => topic !== '');
  return notes.length === 0 ? { topics } : { topics, notes };
}

/** The opposite. What a stranger sends on the channel may have any shape. */
export function fromSent(sent: { readonly topics?: unknown; readonly notes?: unknown }): string[] {
  const notes = texts(sent.notes);
  const noted = new Set(notes.map((each) => splitNote(each).topic));
  return [...texts(sent.topics).filter((topic) => !noted.has(topic)), ...notes];
}

function texts(list: unknown): string[] {
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : [];
}
