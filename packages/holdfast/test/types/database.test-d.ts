import pg from 'pg';
import { connect, launch } from '../../src/index.js';

const pool = new pg.Pool();
const config: pg.PoolConfig = { host: 'db', password: async () => 'token', ssl: { ca: 'certificate' } };

// Everything that pg accepts is accepted.
void launch({ name: 'x', database: pool });
void launch({ name: 'x', database: { pool, listen: 'postgres://db/x' } });
void launch({ name: 'x', database: config });
void launch({ name: 'x', database: { config } });
void launch({ name: 'x', database: { host: 'db', port: 5432, password: async () => 'token' } });
void launch({ name: 'x', database: { url: 'postgres://db/x', listen: process.env.DIRECT_URL } });
void launch({ name: 'x', database: process.env.DATABASE_URL });
void connect({ database: pool });

// @ts-expect-error A misspelled key.
void launch({ name: 'x', database: { hots: 'db' } });
// @ts-expect-error A port is a number.
void launch({ name: 'x', database: { host: 'db', port: '5432' } });
// @ts-expect-error A client is a single connection, not a pool.
void launch({ name: 'x', database: { pool: new pg.Client() } });
