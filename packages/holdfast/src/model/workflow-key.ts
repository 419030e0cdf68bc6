/**
 * Identifies the code of a stored workflow: by its name, for a method of a class also by the class, and for a method
 * of an instance also by the name of the instance. A method has one workflow per instance, each with settings of its
 * own.
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

/** Returns the key as a text. Different keys give different texts, because no name contains a NUL. */
export function keyText({ name, className, configName }: WorkflowKey): string {
  return className === null ? name : `${className}\0${configName ?? ''}\0${name}`;
}

/** Returns the key as messages show it: `checkout`, `Shop.sweep`, `Shop/eu.checkout`. */
export function describeKey({ name, className, configName }: WorkflowKey): string {
  if (className === null) return name;
  return `${className}${configName === null ? '' : `/${configName}`}.${name}`;
}

export function sameKey(a: WorkflowKey, b: WorkflowKey): boolean {
  return a.name === b.name && a.className === b.className && a.configName === b.configName;
}
