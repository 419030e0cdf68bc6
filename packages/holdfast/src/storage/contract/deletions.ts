import type { WorkflowStatus } from '../../model/status.js';

/**
 * Why a workflow cannot be deleted: it, or one below it, is unfinished; it has a child that was not to be deleted; or it,
 * or one below it, is a child of something unfinished, or on record there.
 */
export type Obstacle =
  | { readonly kind: 'unfinished'; readonly workflowId: string; readonly status: WorkflowStatus }
  | { readonly kind: 'child'; readonly workflowId: string; readonly parentWorkflowId: string }
  | { readonly kind: 'needed'; readonly workflowId: string; readonly by: string };

/** Some of the workflows that ended before an instant, in the order in which they did. */
export interface ExpiredPage {
  /** Those of them that are nobody's children, or whose parents are gone. */
  readonly roots: readonly string[];
  /** Where to go on; undefined: there are no more. */
  readonly next: ExpiredPlace | undefined;
}

interface ExpiredPlace {
  readonly completedAt: number;
  readonly workflowId: string;
}

/**
 * Deleting workflows with all that belongs to them.
 *
 * **Invariant:** a workflow goes together with all its descendants, detached ones too, or it stays. IDs of children come
 * from that of their parent: with a child left behind, a new workflow under the ID would find it, and take its result.
 * **Invariant:** nothing goes that is unfinished, or that something unfinished has for a child or on record.
 */
export interface Deletions {
  /** All of these or, if there is an obstacle, none. Returns how many are gone, with those below them. */
  remove(params: { readonly workflowIds: readonly string[]; readonly children: boolean }): Promise<number>;
  /** What is in the way of {@link remove}, some of it. */
  obstacles(params: { readonly workflowIds: readonly string[]; readonly children: boolean }): Promise<Obstacle[]>;
  /** Before when a workflow of the app must have ended so that at least so many ended since. Undefined: that many there are not. */
  cutoff(params: { readonly appName: string; readonly keep: number }): Promise<number | undefined>;
  /** A page of at most `limit` workflows of the app that ended before then, as SUCCESS, ERROR or CANCELLED. */
  expired(params: {
    readonly appName: string;
    readonly before: number;
    readonly after: ExpiredPlace | undefined;
    readonly limit: number;
  }): Promise<ExpiredPage>;
  /**
   * Each of these with all below it, if all of that ended before then, and nothing needs it that is unfinished or set aside.
   * Returns how many are gone.
   */
  removeExpired(params: { readonly workflowIds: readonly string[]; readonly before: number }): Promise<number>;
}
