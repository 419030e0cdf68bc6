import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { FileLedger } from './file-ledger.js';
import { archiveTriggers, Witness, witnessTrigger } from './witness.js';

const greet = workflow('greet', () => run('greeting', () => 'hello'));

function openWitness(database: string): { witness: Witness; ledger: FileLedger } {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-witness-'));
  const ledger = new FileLedger(join(folder, 'ledger'));
  const witness = new Witness(database, ledger);
  onTestFinished(async () => {
    await witness.close();
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return { witness, ledger };
}

describeBackends(
  'the witness of a soak',
  (backend) => {
    it('reports a checkpoint by a process that does not own the workflow, and none by its owner', async () => {
      const database = await backend.newDatabase();
      const { app } = await backend.testApp({ database, executorId: 'host:17:0:x', workflows: [greet] });
      await greet
        .with({ id: 'w', app })
        .start()
        .then((handle) => handle.result());
      await tamper(database, witnessTrigger);
      for (const [pid, stepNumber] of [
        [17, 1],
        [18, 2],
      ]) {
        const session = new pg.Client(`${database}?options=-c%20soak.pid%3D${pid}`);
        await session.connect();
        await session.query(
          "insert into dbos.operation_outputs (workflow_uuid, function_id, function_name) values ('w', $1, 'late')",
          [stepNumber],
        );
        await session.end();
      }
      const { witness } = openWitness(database);
      expect(await witness.sql('select * from dbos.soak_intrusions')).toEqual([
        { workflow_uuid: 'w', function_id: 2, executor_id: 'host:17:0:x', pid: '18' },
      ]);
    });

    it('adds outcomes to the ledger, and adds them again if they change', async () => {
      const database = await backend.newDatabase();
      const { app } = await backend.testApp({ database, workflows: [greet] });
      await greet
        .with({ id: 'w', app })
        .start()
        .then((handle) => handle.result());
      const { witness, ledger } = openWitness(database);
      const outcomes = () => ledger.entries().filter(({ kind }) => kind === 'outcome').length;
      await witness.look();
      await witness.look();
      expect(outcomes()).toBe(1);
      await tamper(database, "update workflow_status set status = 'ERROR' where workflow_uuid = 'w'");
      await witness.look();
      expect(outcomes()).toBe(2);
    });

    it('keeps deleted rows, and whether the workflow was a child of an unfinished workflow', async () => {
      const database = await backend.newDatabase();
      const { app } = await backend.testApp({ database, workflows: [greet] });
      for (const id of ['w', 'child']) {
        const handle = await greet.with({ id, app }).start();
        await handle.result();
      }
      await tamper(database, archiveTriggers);
      await app.workflows.delete('w');
      await tamper(database, "update workflow_status set parent_workflow_id = 'unfinished'");
      await tamper(database, "insert into workflow_status (workflow_uuid, status) values ('unfinished', 'PENDING')");
      await tamper(database, "delete from workflow_status where workflow_uuid = 'child'");
      const { witness } = openWitness(database);
      const gone = 'select workflow_uuid as id, status, was_needed from dbos.gone_workflow_status order by 3, 1';
      expect(await witness.sql(gone)).toEqual([
        { id: 'w', status: 'SUCCESS', was_needed: false },
        { id: 'child', status: 'SUCCESS', was_needed: true },
      ]);
      expect(await witness.sql('select workflow_uuid as id from dbos.gone_operation_outputs order by 1')).toEqual([
        { id: 'child' },
        { id: 'w' },
      ]);
    });

    it('counts the workflows that others took over from an executor', async () => {
      const database = await backend.newDatabase();
      const { app } = await backend.testApp({ database, executorId: 'first', workflows: [greet] });
      await greet
        .with({ id: 'w', app })
        .start()
        .then((handle) => handle.result());
      const { witness } = openWitness(database);
      await tamper(database, "update workflow_status set status = 'PENDING'");
      const owned = await witness.owned('first');
      expect([owned.length, await witness.taken(owned), await witness.unfinished()]).toEqual([1, 0, 1]);
      await tamper(database, "update workflow_status set owner_xid = 'another'");
      expect(await witness.taken(owned)).toBe(1);
    });
  },
  ['postgres'],
);
