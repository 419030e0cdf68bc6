/**
 * Returns a condition: the workflow `w` exists, and DBOS or plain SQL was the last to claim or enqueue it. Owner
 * tokens of Holdfast have a dot after 16 hexadecimal digits (`OwnerTokens`). Other owner tokens are UUIDs or missing.
 */
export function isOfDbos(w: string): string {
  return `(${w}.workflow_uuid is not null and coalesce(${w}.owner_xid, '') not like '________________.%')`;
}
