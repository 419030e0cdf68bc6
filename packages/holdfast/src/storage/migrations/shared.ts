import type { Migration } from './migration.js';
import { firstMigrations } from './shared-first.js';
import { laterMigrations } from './shared-later.js';

/** The migrations of the layout that Holdfast shares with DBOS. Their counter is `dbos_migrations`. */
export const sharedMigrations: readonly Migration[] = [...firstMigrations, ...laterMigrations];
