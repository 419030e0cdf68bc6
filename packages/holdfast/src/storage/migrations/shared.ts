import type { Migration } from './migration.js';
import { firstMigrations } from './shared-first.js';
import { laterMigrations } from './shared-later.js';

/** The layout that Holdfast shares with DBOS, counted in `dbos_migrations`. */
export const sharedMigrations: readonly Migration[] = [...firstMigrations, ...laterMigrations];
