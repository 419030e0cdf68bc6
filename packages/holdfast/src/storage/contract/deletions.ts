import type { WorkflowStatus } from '../../model/status.js';

/**
 * The reason why a workflow cannot be deleted.
 * - `unfinished`: the workflow or one of its descendants has not ended.
 * - `child`: the workflow has a child, and children were not to be deleted.
 * - `needed`: an unfinished workflow (`by`) lists the workflow or one of its descendants as a child or in its history.
 */
export type Obstacle =
  | { readonly kind: 'unfinished'; readonly workflowId: string; readonly status: WorkflowStatus }
  | { readonly kind: 'child'; readonly workflowId: string; readonly parentWorkflowId: string }
  | { readonly kind: 'needed'; readonly workflowId: string; readonly neededBy: string };

/** A page of the workflows that ended before an instant, ordered by the time of their end. */
export interface ExpiredPage {
  /**
   * The workflows of the page that can be deleted as roots: they belong to the app, ended as SUCCESS, ERROR or
   * CANCELLED, and have no parent or a parent that no longer exists.
   */
  readonly roots: readonly string[];
  /** The place where the next page starts. Undefined: there are no more workflows. */
  readonly next: ExpiredPlace | undefined;
}

interface ExpiredPlace {
  readonly completedAt: number;
  readonly workflowId: string;
}

/**
 * Deletes workflows with everything that belongs to them.
 *
 * **Invariant:** a workflow is deleted with all its descendants, including detached ones, or not at all. The IDs of
 * children are derived from the ID of their parent. If a child were left behind, a new workflow under the parent's ID
 * would find this child and take its result.
 *
 * **Invariant:** an unfinished workflow is not deleted. A workflow is not deleted while an unfinished workflow lists it
 * as a child or in its history.
 */
export interface Deletions {
  /**
   * Deletes all of these workflows or, if there is an obstacle, none of them. Returns the number of deleted workflows,
   * including descendants.
   */
  remove(params: { readonly workflowIds: readonly string[]; readonly children: boolean }): Promise<number>;
  /** Returns some of the obstacles that prevent {@link remove}. */
  obstacles(params: { readonly workflowIds: readonly string[]; readonly children: boolean }): Promise<Obstacle[]>;
  /**
   * Returns the latest instant such that at least `keep` workflows of the app have ended at or after this instant.
   * Undefined: fewer workflows have ended.
   */
  cutoff(params: { readonly appName: string; readonly keep: number }): Promise<number | undefined>;
  /** Returns the next page, of at most `limit` workflows, of those that ended before `before`. */
  expired(params: {
    readonly appName: string;
    readonly before: number;
    readonly after: ExpiredPlace | undefined;
    readonly limit: number;
  }): Promise<ExpiredPage>;
  /**
   * Deletes each of these workflows with its descendants, if all of them ended before `before`, and if no unfinished,
   * STALLED or dead-lettered workflow needs them. Returns the number of deleted workflows.
   */
  removeExpired(params: { readonly workflowIds: readonly string[]; readonly before: number }): Promise<number>;
}
