export type { App } from './app/app.js';
export { launch } from './app/launch.js';
export { type MigrateOptions, migrate } from './app/migrate.js';
export type { LaunchOptions } from './app/options.js';
export { platformVersion } from './app/version-from-environment.js';
export { type Client, type ClientOptions, connect } from './client/client.js';
export type { WorkflowName } from './client/what-to-start.js';
export {
  type ClassOptions,
  registerClass,
  type Serializer,
  type StoredError,
  type StoredErrorOptions,
} from './codec/codecs.js';
export { context, type WorkflowContext } from './engine/api/context.js';
export type { WorkflowOptions } from './engine/api/definition.js';
export { now, random, uuid } from './engine/api/deterministic.js';
export type { WorkflowHandle } from './engine/api/handle.js';
export { deprecatePatch, patch } from './engine/api/patch.js';
export { sleep } from './engine/api/sleep.js';
export type { StartOptions } from './engine/api/start-options.js';
export { type RetryOptions, run, type StepOptions, step } from './engine/api/step.js';
export { type Invocation, type Workflow, workflow } from './engine/api/workflow.js';
export type { RetryInfo, WorkflowInfo } from './engine/api/workflow-info.js';
export type { MessageInfo } from './management/communication.js';
export type { DeleteOptions } from './management/delete.js';
export type { ForkOptions } from './management/fork.js';
export type { ListOptions } from './management/list.js';
export type { ResumeOptions } from './management/resume.js';
export type { WorkflowRetryOptions } from './management/retry.js';
export type { StepInfo, WorkflowOperations } from './management/workflows.js';
export { type Event, type EventOptions, event, type GetOptions } from './messaging/event.js';
export { type ReadOptions, type Stream, type StreamOptions, stream } from './messaging/stream.js';
export { type Message, type SendOptions, type Topic, type TopicOptions, topic } from './messaging/topic.js';
export type { Duration } from './model/duration.js';
export type { ErrorDetails } from './model/error-details.js';
export { type ErrorCode, FatalError, HoldfastError, type HoldfastErrorOf, isHoldfastError } from './model/errors.js';
export type { Logger } from './model/logger.js';
export type {
  ConflictPolicy,
  Queue,
  QueueLimits,
  QueueOptions,
  RateLimit,
} from './model/queues.js';
export type { OnExceeded, OnNotResumed, RecoveryOptions, WorkflowRecoveryOptions } from './model/recovery.js';
export type { RetentionOptions } from './model/retention.js';
export type { WorkflowStatus } from './model/status.js';
export { type Debouncer, type DebouncerOptions, debouncer } from './queues/debouncer.js';
export type { LimitInfo, QueueChanges, QueueInfo, QueueOperations, QueueStatus } from './queues/operations.js';
export { queue } from './queues/queue.js';
export type { IncompleteOptions, IncompleteWorkflow } from './recovery/incomplete.js';
export type { RecoverTarget, RecoveryOperations } from './recovery/operations.js';
export type { RecoveryAction, RecoveryPlan } from './recovery/policy.js';
export type { SweepReport, SweptWorkflow } from './recovery/report.js';
export type { BackfillRange, BackfillTick } from './schedules/backfill.js';
export type { ScheduleInfo } from './schedules/info.js';
export type { ScheduleOperations } from './schedules/operations.js';
export { type CatchUp, type Schedule, type ScheduleOptions, schedule } from './schedules/schedule.js';
export type { ScheduleChanges } from './schedules/settings.js';
export type { VersionRecord } from './storage/contract/storage.js';
export type { Datasource, DatasourceOptions, Isolation, TransactionMode } from './storage/open-datasource.js';
export { type TransactionOptions, transaction } from './transactions/transaction.js';
