import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

const shown = 20;

/** Prints the files that took longest at the end of a run of many files, so that somebody makes them faster. */
export default class SlowestFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length <= shown) return;
    const slowest = modules
      .map((module) => ({ module, ms: module.diagnostic().duration }))
      .sort((a, b) => b.ms - a.ms)
      .slice(0, shown);
    const lines = slowest.map(({ module, ms }) => {
      const seconds = (ms / 1000).toFixed(1).padStart(6);
      return `${seconds} s  ${module.project.name.padEnd(8)}  ${relative(process.cwd(), module.moduleId)}`;
    });
    process.stdout.write(`\nThe ${shown} slowest files:\n${lines.join('\n')}\n`);
  }
}
