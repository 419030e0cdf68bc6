/**
 * Whether the workflow `w`, if there is one, was last claimed or enqueued by DBOS or from SQL: Holdfast's owner tokens have a
 * point after 16 digits (`OwnerTokens`), where others' are UUIDs, or missing.
 */
export function isOfDbos(w: string): string {
  return `(${w}.workflow_uuid is not null and coalesce(${w}.owner_xid, '') not like '________________.%')`;
}
