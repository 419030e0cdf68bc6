/** Owns the process of an executor, which may be killed at any time. `child.mjs` calls it for a failover. */
import { loadSystems } from '../catalogue.mjs';
import { openDiary } from './diary.mjs';

export const executorHandlers = {
  /**
   * @param {{ system: string, post: Omit<import('./failover.mjs').Post, 'step'>, name: string, diary: string }} request
   */
  async openExecutor({ system, post, name, diary }) {
    const adapter = (await loadSystems()).find((each) => each.name === system)?.failover;
    await adapter?.openExecutor({ ...post, step: openDiary(diary, name) });
  },
};
