/**
 * Adds a note to a topic, after a line break: `queue:orders\n[...]`. Processes of an older release do not know notes
 * and receive only the topic. A note with an empty topic is not sent to them. Only topics with a key may contain a line
 * break themselves, and these topics carry no note.
 */
export function withNote(topic: string, note: string): string {
  return `${topic}\n${note}`;
}

/** Topics with a key. The key is a workflow ID with the name of a topic, event or stream, and may be any text. */
const hasKey = /^(?:message|event|stream):/;

export function splitNote(text: string): { readonly topic: string; readonly note: string | undefined } {
  const at = hasKey.test(text) ? -1 : text.indexOf('\n');
  return at < 0 ? { topic: text, note: undefined } : { topic: text.slice(0, at), note: text.slice(at + 1) };
}

/**
 * Topics in the form in which they are sent. `topics` is for every release; `notes` repeats the topics that carry a
 * note.
 */
export interface SentTopics {
  readonly topics: readonly string[];
  readonly notes?: readonly string[];
}

export function encodeTopics(all: readonly string[]): SentTopics {
  const notes = all.filter((each) => splitNote(each).note !== undefined);
  const topics = [...new Set(all.map((each) => splitNote(each).topic))].filter((topic) => topic !== '');
  return notes.length === 0 ? { topics } : { topics, notes };
}

/** The inverse of {@link encodeTopics}. Another program may send any value on the channel. */
export function decodeTopics(sent: { readonly topics?: unknown; readonly notes?: unknown }): string[] {
  const notes = texts(sent.notes);
  const noted = new Set(notes.map((each) => splitNote(each).topic));
  return [...texts(sent.topics).filter((topic) => !noted.has(topic)), ...notes];
}

function texts(list: unknown): string[] {
  return Array.isArray(list) ? list.filter((each) => typeof each === 'string') : [];
}
