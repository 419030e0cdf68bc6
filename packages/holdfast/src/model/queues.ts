/** Work that belongs to no queue of the user's waits here: resumed and handed-over workflows. DBOS's name for it. */
export const internalQueue = '_dbos_internal_queue';
