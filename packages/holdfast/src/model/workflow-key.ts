/**
 * By what a stored workflow finds its code: its name; for a method of a class also the class, and for a method of an
 * instance also the instance's name. Two of one class and name are two workflows, with settings of their own.
 */
export interface WorkflowKey {
  readonly name: string;
  /** Null for a plain function. */
  readonly className: string | null;
  /** Null for a plain function and for a static method. */
  readonly configName: string | null;
}

export function plainKey(name: string): WorkflowKey {
  return { name, className: null, configName: null };
}

/** The key as a text, different for different keys: no name holds a NUL. */
export function keyText({ name, className, configName }: WorkflowKey): string {
  return className === null ? name : `${className}\0${configName ?? ''}\0${name}`;
}

/** As messages name it: `checkout`, `Shop.sweep`, `Shop/eu.checkout`. */
export function describeKey({ name, className, configName }: WorkflowKey): string {
  if (className === null) return name;
  return `${className}${configName === null ? '' : `/${configName}`}.${name}`;
}

export function sameKey(a: WorkflowKey, b: WorkflowKey): boolean {
  return a.name === b.name && a.className === b.className && a.configName === b.configName;
}
