-- steps.attempt
insert into
  step_attempts as a (workflow_uuid, function_id, attempt, next_at, token, interrupted)
select
  r."workflowId", r."stepNumber", coalesce(r.attempt, 1), r."nextAt", r.token, ''
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "token", $6 as "attempt", $7 as "nextAt",
      $8 as "at", $9 as "afterStep", $10 as "afterSeq", $11 as "afterAlso"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
on conflict (workflow_uuid, function_id) do update
set
  attempt = case
    when excluded.next_at is not null then excluded.attempt
    when (
      a.token = excluded.token
      or coalesce(a.next_at > cast($1 as bigint), false)
    ) then a.attempt
    else a.attempt + 1
  end, next_at = case
    when excluded.next_at is not null then excluded.next_at
    when (
      a.token = excluded.token
      or coalesce(a.next_at > cast($1 as bigint), false)
    ) then a.next_at
    else null
  end, token = case
    when excluded.next_at is not null then excluded.token
    when (
      a.token = excluded.token
      or coalesce(a.next_at > cast($1 as bigint), false)
    ) then a.token
    else excluded.token
  end, interrupted = case
    when excluded.next_at is not null then a.interrupted
    when (
      a.token = excluded.token
      or coalesce(a.next_at > cast($1 as bigint), false)
    ) then a.interrupted
    else case
      when a.next_at is null then a.interrupted || ' ' || a.attempt
      else a.interrupted
    end
  end
returning
  workflow_uuid, function_id, attempt, next_at, token, interrupted;

-- steps.complete
update operation_outputs as o
set
  completion_seq = f."completionSeq", completed_at_epoch_ms = f."completedAt"
from
  (
    select
      r.*
    from
      (
        select
          $1 as "workflowId", $2 as "owner", $3 as "stepNumber", $4 as "completedAt", $5 as "completionSeq",
          $6 as "afterStep", $7 as "afterSeq", $8 as "afterAlso"
      ) as r
      join workflow_status fence on fence.workflow_uuid = r."workflowId"
      and fence.owner_xid = r.owner
      and fence.status = 'PENDING'
    where
      (
        r."afterStep" is null
        or r."afterSeq" = (
          select
            p.completion_seq
          from
            operation_outputs p
          where
            p.workflow_uuid = r."workflowId"
            and p.function_id = r."afterStep"
        )
      )
      and (
        r."afterAlso" is null
        or not exists (
          select
            1
          from
            (
              select
                value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
              from
                json_each(r."afterAlso")
            ) as x
          where
            case
              when x.child is null then coalesce(
                (
                  select
                    p.completion_seq
                  from
                    operation_outputs p
                  where
                    p.workflow_uuid = r."workflowId"
                    and p.function_id = x.step
                ),
                -1
              ) <> x.seq
              else (
                select
                  1
                from
                  workflow_status c
                where
                  c.workflow_uuid = x.child
              ) is null
            end
        )
      )
  ) as f
where
  o.workflow_uuid = f."workflowId"
  and o.function_id = f."stepNumber"
  and o.completion_seq is null;

-- steps.history
select
  workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
  started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after
from
  operation_outputs
where
  workflow_uuid in (
    select
      value
    from
      json_each($1)
  );

-- steps.record
insert into
  operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
  r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "name", $6 as "output", $7 as "error",
      $8 as "serialization", $9 as "childWorkflowId", $10 as "startedAt", $11 as "completedAt",
      $12 as "completionSeq", $13 as "requestedAfter", $14 as "afterStep", $15 as "afterSeq",
      $16 as "afterAlso"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
on conflict (workflow_uuid, function_id) do nothing;

-- steps.record-effects (consume)
insert into
  operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
  r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "name", $6 as "output", $7 as "error",
      $8 as "serialization", $9 as "childWorkflowId", $10 as "startedAt", $11 as "completedAt",
      $12 as "completionSeq", $13 as "requestedAfter", $14 as "afterStep", $15 as "afterSeq",
      $16 as "afterAlso", $17 as "effects", $18 as "recipients", $19 as "consumes", $20 as "errorIfAbsent"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
  and (
    r.consumes is null
    or (
      select
        1
      from
        notifications n
      where
        n.message_uuid = r.consumes
    ) = 1
  )
on conflict (workflow_uuid, function_id) do nothing
returning
  workflow_uuid, function_id,
  (
    operation_outputs.error is null
    or operation_outputs.function_name = 'DBOS.recv'
  ) as landed;

-- steps.record-effects (message-consume-event-stream)
insert into
  operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, case
    when r."errorIfAbsent" is not null
    and exists (
      select
        1
      from
        (
          select
            value ->> 'kind' as "kind", value ->> 'destination' as "destination"
          from
            json_each(coalesce(r.recipients, r.effects))
        ) as x
      where
        x.kind = 'message'
        and not exists (
          select
            1
          from
            workflow_status d
          where
            d.workflow_uuid = x.destination
        )
    ) then r."errorIfAbsent"
    else r.error
  end, r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq",
  r."requestedAfter", $1
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "name", $6 as "output", $7 as "error",
      $8 as "serialization", $9 as "childWorkflowId", $10 as "startedAt", $11 as "completedAt",
      $12 as "completionSeq", $13 as "requestedAfter", $14 as "afterStep", $15 as "afterSeq",
      $16 as "afterAlso", $17 as "effects", $18 as "recipients", $19 as "consumes", $20 as "errorIfAbsent"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
  and (
    r.consumes is null
    or (
      select
        1
      from
        notifications n
      where
        n.message_uuid = r.consumes
    ) = 1
  )
on conflict (workflow_uuid, function_id) do nothing
returning
  workflow_uuid, function_id,
  (
    operation_outputs.error is null
    or operation_outputs.function_name = 'DBOS.recv'
  ) as landed;

-- steps.record-effects (message)
insert into
  operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, case
    when r."errorIfAbsent" is not null
    and exists (
      select
        1
      from
        (
          select
            value ->> 'kind' as "kind", value ->> 'destination' as "destination"
          from
            json_each(coalesce(r.recipients, r.effects))
        ) as x
      where
        x.kind = 'message'
        and not exists (
          select
            1
          from
            workflow_status d
          where
            d.workflow_uuid = x.destination
        )
    ) then r."errorIfAbsent"
    else r.error
  end, r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq",
  r."requestedAfter", $1
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "name", $6 as "output", $7 as "error",
      $8 as "serialization", $9 as "childWorkflowId", $10 as "startedAt", $11 as "completedAt",
      $12 as "completionSeq", $13 as "requestedAfter", $14 as "afterStep", $15 as "afterSeq",
      $16 as "afterAlso", $17 as "effects", $18 as "recipients", $19 as "consumes", $20 as "errorIfAbsent"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
on conflict (workflow_uuid, function_id) do nothing
returning
  workflow_uuid, function_id,
  (
    operation_outputs.error is null
    or operation_outputs.function_name = 'DBOS.recv'
  ) as landed;

-- steps.record-effects (stream)
insert into
  operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
  r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
from
  (
    select
      $2 as "workflowId", $3 as "owner", $4 as "stepNumber", $5 as "name", $6 as "output", $7 as "error",
      $8 as "serialization", $9 as "childWorkflowId", $10 as "startedAt", $11 as "completedAt",
      $12 as "completionSeq", $13 as "requestedAfter", $14 as "afterStep", $15 as "afterSeq",
      $16 as "afterAlso", $17 as "effects", $18 as "recipients", $19 as "consumes", $20 as "errorIfAbsent"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        operation_outputs p
      where
        p.workflow_uuid = r."workflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        (
          select
            value ->> 'step' as "step", value ->> 'seq' as "seq", value ->> 'child' as "child"
          from
            json_each(r."afterAlso")
        ) as x
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                operation_outputs p
              where
                p.workflow_uuid = r."workflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
on conflict (workflow_uuid, function_id) do nothing
returning
  workflow_uuid, function_id,
  (
    operation_outputs.error is null
    or operation_outputs.function_name = 'DBOS.recv'
  ) as landed;

-- steps.states
select
  w.workflow_uuid, r."stepNumber" as step_number, w.owner_xid, w.status, o.function_id, o.error,
  o.completion_seq
from
  (
    select
      $1 as "workflowId", $2 as "stepNumber"
  ) as r
  join workflow_status w on w.workflow_uuid = r."workflowId"
  left join operation_outputs o on o.workflow_uuid = w.workflow_uuid
  and o.function_id = r."stepNumber";

