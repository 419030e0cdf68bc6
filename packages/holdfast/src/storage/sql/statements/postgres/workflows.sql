-- workflows.cancel
with recursive
  tree (id) as (
    select
      *
    from
      (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      workflow_uuid
                    from
                      "dbos".workflow_status
                    where
                      workflow_uuid = any ($1::text[])
                  ) whole
                limit
                  (
                    select
                      null::bigint
                  )
              ) tenth
            limit
              (
                select
                  null::bigint
              )
          ) hundredth
        limit
          (
            select
              null::bigint
          )
      ) thousandth
    union
    select
      c.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          parent_workflow_id = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) c
    where
      not c.detached
  ),
  picked as materialized (
    select
      workflow_uuid
    from
      "dbos".workflow_status
    where
      workflow_uuid in (
        select
          id
        from
          tree
      )
      and status in ('PENDING', 'ENQUEUED', 'DELAYED')
    order by
      workflow_uuid collate "C"
    for no key update
  )
update "dbos".workflow_status
set
  status = 'CANCELLED', status_reason = $2, completed_at = $3, updated_at = $3, deduplication_id = null
where
  workflow_uuid in (
    select
      workflow_uuid
    from
      picked
  )
  and status in ('PENDING', 'ENQUEUED', 'DELAYED')
returning
  workflow_uuid, owner_xid, status_reason, queue_name;

-- workflows.cancelledSince
select
  workflow_uuid, owner_xid, status_reason, queue_name
from
  "dbos".workflow_status
where
  completed_at >= $1
  and status = 'CANCELLED';

-- workflows.claimedUnder
select
  workflow_uuid, status, name, class_name, config_name, serialization, executor_id, owner_xid,
  application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
  completed_at, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id, queue_name, priority,
  deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, authenticated_user,
  authenticated_roles, assumed_role, attributes, status_reason, forked_from, was_forked_from, seed, began_at,
  incarnation, retries, under_way,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, output as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else output
  end as output, case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, error as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  "dbos".workflow_status
where
  status = 'PENDING'
  and executor_id = $2
  and application_version = $3
  and owner_xid = $1;

-- workflows.debounce
with
  enqueue_turn as materialized (
    select
      nextval('"dbos".holdfast_enqueue_seq') as n
  ),
  given as (
    select
      cast($1 as text) as "workflowId", cast($2 as text) as "name", cast($3 as text) as "className",
      cast($4 as text) as "configName", cast($5 as text) as "inputs", cast($6 as text) as "serialization",
      cast($7 as text) as "version", cast($8 as text) as "appName", cast($9 as bigint) as "createdAt",
      cast($10 as bigint) as "timeoutMs", cast($11 as bigint) as "deadlineAt", cast($12 as text) as "user",
      cast($13 as text) as "roles", cast($14 as text) as "assumedRole", cast($15 as jsonb) as "attributes",
      cast($16 as text) as "queueName", cast($17 as int) as "priority", cast($18 as text) as "dedupId",
      cast($19 as text) as "partition", cast($20 as bigint) as "delayUntil",
      cast($21 as text) as "scheduleName", cast($22 as text) as "parentWorkflowId",
      cast($23 as boolean) as "detached", cast($24 as bigint) as "debounceTimeoutMs"
  ),
  held as materialized (
    select
      name
    from
      "dbos".holdfast_hold_queues (
        array(
          select distinct
            g."queueName"
          from
            given g
        )
      ) as held (name)
  )
insert into
  "dbos".workflow_status as w (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version,
    application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms,
    workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes, queue_name,
    priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, parent_workflow_id,
    detached, incarnation, enqueue_seq, is_debounced, debounce_deadline_epoch_ms
  )
select
  r."workflowId", case
    when r."delayUntil" is null then 'ENQUEUED'
    else 'DELAYED'
  end, r.name, r."className", r."configName", r.inputs, r.serialization, r.version, r."appName", 0,
  r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user", r.roles, r."assumedRole",
  r.attributes, r."queueName", r.priority, r."dedupId",
  coalesce(
    r.partition,
    (
      select
        '(none)'
      from
        "dbos".queues p
      where
        p.name = r."queueName"
        and (
          p.partitioned
          or p.partition_queue
          or coalesce(
            p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
            p.partition_rate_limit_period_sec
          ) is not null
        )
    )
  ),
  case
    when r."delayUntil" is null then r."createdAt" + r."debounceTimeoutMs"
    when r."createdAt" + r."debounceTimeoutMs" is null then r."delayUntil"
    when r."delayUntil" < r."createdAt" + r."debounceTimeoutMs" then r."delayUntil"
    else r."createdAt" + r."debounceTimeoutMs"
  end, r."scheduleName", r."parentWorkflowId", r.detached, gen_random_uuid()::text,
  (
    select
      n
    from
      enqueue_turn
  ) * 1048576 + 0,
  true, r."createdAt" + r."debounceTimeoutMs"
from
  given r
where
  (
    r."queueName" = '_dbos_internal_queue'
    or r."queueName" in (
      select
        name
      from
        held
    )
  )
on conflict (queue_name, deduplication_id)
where
  deduplication_id is not null do update
set
  inputs = excluded.inputs, serialization = excluded.serialization, updated_at = excluded.updated_at,
  application_version = excluded.application_version, application_name = excluded.application_name,
  workflow_timeout_ms = excluded.workflow_timeout_ms,
  workflow_deadline_epoch_ms = excluded.workflow_deadline_epoch_ms,
  authenticated_user = excluded.authenticated_user, authenticated_roles = excluded.authenticated_roles,
  assumed_role = excluded.assumed_role, attributes = excluded.attributes, priority = excluded.priority,
  queue_partition_key = excluded.queue_partition_key,
  detached = (
    w.detached
    or w.parent_workflow_id is distinct from excluded.parent_workflow_id
  ),
  debounce_deadline_epoch_ms = case
    when w.debounce_deadline_epoch_ms is null then (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
    when (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) is null then w.debounce_deadline_epoch_ms
    when w.debounce_deadline_epoch_ms < (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) then w.debounce_deadline_epoch_ms
    else (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
  end, delay_until_epoch_ms = case
    when excluded.delay_until_epoch_ms is null then (
      case
        when w.debounce_deadline_epoch_ms is null then (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
        when (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) is null then w.debounce_deadline_epoch_ms
        when w.debounce_deadline_epoch_ms < (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) then w.debounce_deadline_epoch_ms
        else (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
      end
    )
    when (
      case
        when w.debounce_deadline_epoch_ms is null then (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
        when (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) is null then w.debounce_deadline_epoch_ms
        when w.debounce_deadline_epoch_ms < (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) then w.debounce_deadline_epoch_ms
        else (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
      end
    ) is null then excluded.delay_until_epoch_ms
    when excluded.delay_until_epoch_ms < (
      case
        when w.debounce_deadline_epoch_ms is null then (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
        when (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) is null then w.debounce_deadline_epoch_ms
        when w.debounce_deadline_epoch_ms < (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) then w.debounce_deadline_epoch_ms
        else (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
      end
    ) then excluded.delay_until_epoch_ms
    else (
      case
        when w.debounce_deadline_epoch_ms is null then (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
        when (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) is null then w.debounce_deadline_epoch_ms
        when w.debounce_deadline_epoch_ms < (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at)) then w.debounce_deadline_epoch_ms
        else (w.created_at + (excluded.debounce_deadline_epoch_ms - excluded.created_at))
      end
    )
  end
where
  w.status = 'DELAYED'
  and w.is_debounced
  and (
    w.name = excluded.name
    and coalesce(w.class_name, '') = coalesce(excluded.class_name, '')
    and coalesce(w.config_name, '') = coalesce(excluded.config_name, '')
  )
returning
  workflow_uuid, delay_until_epoch_ms;

-- workflows.delete
with recursive
  tree (root, id) as (
    select
      *
    from
      (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      workflow_uuid as root, workflow_uuid as id
                    from
                      "dbos".workflow_status
                    where
                      workflow_uuid = any ($1::text[])
                  ) whole
                limit
                  (
                    select
                      null::bigint
                  )
              ) tenth
            limit
              (
                select
                  null::bigint
              )
          ) hundredth
        limit
          (
            select
              null::bigint
          )
      ) thousandth
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          parent_workflow_id = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) c
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      w.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'child', t.id, w.parent_workflow_id
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (t.id = any ($1::text[]))
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = w.parent_workflow_id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) p
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".operation_outputs
                        where
                          child_workflow_id = t.id
                          and child_workflow_id is not null
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) o
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = o.workflow_uuid
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) u
    where
      u.status in ('PENDING', 'ENQUEUED', 'DELAYED')
  ),
  picked as materialized (
    select
      t.id
    from
      tree t
    where
      not exists (
        select
          1
        from
          obstacles
      )
  ),
  gone as (
    delete from "dbos".workflow_status
    where
      workflow_uuid in (
        select
          id
        from
          picked
      )
    returning
      workflow_uuid
  ),
  workflow_input as (
    delete from "dbos".workflow_input
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  ),
  workflow_output as (
    delete from "dbos".workflow_output
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  ),
  steps as (
    delete from "dbos".operation_outputs
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  )
select
  workflow_uuid
from
  gone;

-- workflows.delete-expired
with recursive
  tree (root, id) as (
    select
      *
    from
      (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      workflow_uuid as root, workflow_uuid as id
                    from
                      "dbos".workflow_status
                    where
                      workflow_uuid = any ($1::text[])
                  ) whole
                limit
                  (
                    select
                      null::bigint
                  )
              ) tenth
            limit
              (
                select
                  null::bigint
              )
          ) hundredth
        limit
          (
            select
              null::bigint
          )
      ) thousandth
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          parent_workflow_id = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) c
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      (
        w.status not in ('SUCCESS', 'ERROR', 'CANCELLED')
        or coalesce(w.completed_at >= cast($3 as bigint), true)
      )
    union all
    select
      t.root, 'child', t.id, w.parent_workflow_id
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (t.id = any ($1::text[]))
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = w.parent_workflow_id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) p
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED', 'STALLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".operation_outputs
                        where
                          child_workflow_id = t.id
                          and child_workflow_id is not null
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) o
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = o.workflow_uuid
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) u
    where
      u.status in ('PENDING', 'ENQUEUED', 'DELAYED', 'STALLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
  ),
  picked as materialized (
    select
      t.id
    from
      tree t
    where
      t.root not in (
        select
          root
        from
          obstacles
      )
  ),
  gone as (
    delete from "dbos".workflow_status
    where
      workflow_uuid in (
        select
          id
        from
          picked
      )
    returning
      workflow_uuid
  ),
  workflow_input as (
    delete from "dbos".workflow_input
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  ),
  workflow_output as (
    delete from "dbos".workflow_output
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  ),
  steps as (
    delete from "dbos".operation_outputs
    where
      workflow_uuid in (
        select
          workflow_uuid
        from
          gone
      )
  )
select
  workflow_uuid
from
  gone;

-- workflows.dequeue-exclusive
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    update "dbos".queues
    set
      turn = turn + 1
    where
      name = $7
      and turn = cast($9 as bigint)
      and not paused
    returning
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        select
          case
            when not s.second then r.n
            when not s.first then 0
            else (
              select
                count(*) filter (
                  where
                    own
                )
              from
                (
                  select
                    own
                  from
                    (
                      select
                        *
                      from
                        (
                          select
                            true as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            status || '' = 'ENQUEUED'
                            and queue_name = $7
                            and cast(r."partition" as text) is null
                            and application_version = $4
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                      union all
                      select
                        *
                      from
                        (
                          select
                            false as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            status || '' = 'ENQUEUED'
                            and queue_name = $7
                            and cast(r."partition" as text) is null
                            and application_version is null
                            and $4 = (
                              select
                                coalesce(name_in_app, version_name)
                              from
                                "dbos".application_versions
                              where
                                version_name >= ''
                                and (
                                  application_name is null
                                  or application_name = $3
                                )
                              order by
                                version_timestamp desc, created_at desc
                              limit
                                1
                            )
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                    ) t
                  order by
                    priority, enqueue_seq nulls first, created_at
                  limit
                    r.n
                ) t
            )
          end as own, s.first
          and s.second as mixed
        from
          (
            select
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      status || '' = 'ENQUEUED'
                      and queue_name = $7
                      and cast(r."partition" as text) is null
                      and application_version = $4
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as first,
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      status || '' = 'ENQUEUED'
                      and queue_name = $7
                      and cast(r."partition" as text) is null
                      and application_version is null
                      and $4 = (
                        select
                          coalesce(name_in_app, version_name)
                        from
                          "dbos".application_versions
                        where
                          version_name >= ''
                          and (
                            application_name is null
                            or application_name = $3
                          )
                        order by
                          version_timestamp desc, created_at desc
                        limit
                          1
                      )
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as second
            offset
              0
          ) s
        offset
          0
      ) share
      cross join lateral (
        select
          t.*, share.mixed
        from
          (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  share.own
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  r.n - share.own
                for no key update
                  skip locked
              ) t
          ) t
      ) per_row
  ),
  changed as (
    update "dbos".workflow_status as w
    set
      owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
      application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
      started_at_epoch_ms = case
        when p.returns then started_at_epoch_ms
        else case
          when cast($8 as boolean) then case
            when (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint
            else cast($5 as bigint)
          end
          else cast($5 as bigint)
        end
      end, rate_limited = case
        when p.returns then rate_limited
        else cast($8 as boolean)
      end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
        when workflow_timeout_ms is null then workflow_deadline_epoch_ms
        when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
        else cast($5 as bigint) + workflow_timeout_ms
      end, status = case
        when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        else 'PENDING'
      end, deduplication_id = case
        when recovery_attempts > p.most then null
        else deduplication_id
      end, completed_at = case
        when recovery_attempts > p.most then cast($5 as bigint)
      end
    from
      picked p
    where
      w.workflow_uuid = p.id
    returning
      workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
      workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
      authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
      coalesce(
        inputs,
        (
          select
            p.payload
          from
            (
              select
                workflow_uuid as payload_id, inputs as payload
              from
                "dbos".workflow_input
            ) p
          where
            p.payload_id = workflow_uuid
        )
      ) as inputs,
      (
        p.started is null
        and not exists (
          select
            1
          from
            "dbos".operation_outputs o
          where
            o.workflow_uuid = w.workflow_uuid
        )
      ) as never_ran,
      p.mixed as mixed
  )
select
  changed.*, held.held
from
  (
    select
      count(*) > 0 as held
    from
      guard
  ) held
  left join changed on true;

-- workflows.dequeue-exclusive (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    update "dbos".queues
    set
      turn = turn + 1
    where
      name = $7
      and turn = cast($9 as bigint)
      and not paused
    returning
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        with recursive
          own_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  own_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          other_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  other_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          places as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              true as own, rank
                            from
                              own_ranks
                            where
                              rank is not null
                            union all
                            select
                              false, rank
                            from
                              other_ranks
                            where
                              rank is not null
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          ),
          chosen as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              own, rank, cast(r.n as bigint) as n
                            from
                              places
                            where
                              (
                                select
                                  count(*)
                                from
                                  places
                              ) = 1
                            union all
                            select
                              own, priority, count(*)
                            from
                              (
                                select
                                  h.own, h.priority
                                from
                                  places p
                                  cross join lateral (
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          status || '' = 'ENQUEUED'
                                          and queue_name = $7
                                          and cast(r."partition" as text) is null
                                          and application_version = $4
                                          and p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                    union all
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          status || '' = 'ENQUEUED'
                                          and queue_name = $7
                                          and cast(r."partition" as text) is null
                                          and application_version is null
                                          and $4 = (
                                            select
                                              coalesce(name_in_app, version_name)
                                            from
                                              "dbos".application_versions
                                            where
                                              version_name >= ''
                                              and (
                                                application_name is null
                                                or application_name = $3
                                              )
                                            order by
                                              version_timestamp desc, created_at desc
                                            limit
                                              1
                                          )
                                          and not p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                  ) h
                                where
                                  (
                                    select
                                      count(*)
                                    from
                                      places
                                  ) > 1
                                order by
                                  enqueue_seq nulls first, created_at
                                limit
                                  r.n
                              ) t
                            group by
                              own, priority
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          )
        select
          t.*,
          (
            select
              count(*)
            from
              places
          ) > 1 as mixed
        from
          chosen c
          cross join lateral (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and not c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
          ) t
        order by
          t.arrival nulls first, t.born
      ) per_row
  ),
  changed as (
    update "dbos".workflow_status as w
    set
      owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
      application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
      started_at_epoch_ms = case
        when p.returns then started_at_epoch_ms
        else case
          when cast($8 as boolean) then case
            when (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint
            else cast($5 as bigint)
          end
          else cast($5 as bigint)
        end
      end, rate_limited = case
        when p.returns then rate_limited
        else cast($8 as boolean)
      end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
        when workflow_timeout_ms is null then workflow_deadline_epoch_ms
        when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
        else cast($5 as bigint) + workflow_timeout_ms
      end, status = case
        when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        else 'PENDING'
      end, deduplication_id = case
        when recovery_attempts > p.most then null
        else deduplication_id
      end, completed_at = case
        when recovery_attempts > p.most then cast($5 as bigint)
      end
    from
      picked p
    where
      w.workflow_uuid = p.id
    returning
      workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
      workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
      authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
      coalesce(
        inputs,
        (
          select
            p.payload
          from
            (
              select
                workflow_uuid as payload_id, inputs as payload
              from
                "dbos".workflow_input
            ) p
          where
            p.payload_id = workflow_uuid
        )
      ) as inputs,
      (
        p.started is null
        and not exists (
          select
            1
          from
            "dbos".operation_outputs o
          where
            o.workflow_uuid = w.workflow_uuid
        )
      ) as never_ran,
      p.mixed as mixed
  )
select
  changed.*, held.held
from
  (
    select
      count(*) > 0 as held
    from
      guard
  ) held
  left join changed on true;

-- workflows.dequeue-free
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    select
      1 as held
    where
      cast($9 as bigint) is null
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        select
          case
            when not s.second then r.n
            when not s.first then 0
            else (
              select
                count(*) filter (
                  where
                    own
                )
              from
                (
                  select
                    own
                  from
                    (
                      select
                        *
                      from
                        (
                          select
                            true as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            status || '' = 'ENQUEUED'
                            and queue_name = $7
                            and cast(r."partition" as text) is null
                            and application_version = $4
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                      union all
                      select
                        *
                      from
                        (
                          select
                            false as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            status || '' = 'ENQUEUED'
                            and queue_name = $7
                            and cast(r."partition" as text) is null
                            and application_version is null
                            and $4 = (
                              select
                                coalesce(name_in_app, version_name)
                              from
                                "dbos".application_versions
                              where
                                version_name >= ''
                                and (
                                  application_name is null
                                  or application_name = $3
                                )
                              order by
                                version_timestamp desc, created_at desc
                              limit
                                1
                            )
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                    ) t
                  order by
                    priority, enqueue_seq nulls first, created_at
                  limit
                    r.n
                ) t
            )
          end as own, s.first
          and s.second as mixed
        from
          (
            select
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      status || '' = 'ENQUEUED'
                      and queue_name = $7
                      and cast(r."partition" as text) is null
                      and application_version = $4
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as first,
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      status || '' = 'ENQUEUED'
                      and queue_name = $7
                      and cast(r."partition" as text) is null
                      and application_version is null
                      and $4 = (
                        select
                          coalesce(name_in_app, version_name)
                        from
                          "dbos".application_versions
                        where
                          version_name >= ''
                          and (
                            application_name is null
                            or application_name = $3
                          )
                        order by
                          version_timestamp desc, created_at desc
                        limit
                          1
                      )
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as second
            offset
              0
          ) s
        offset
          0
      ) share
      cross join lateral (
        select
          t.*, share.mixed
        from
          (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  share.own
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  r.n - share.own
                for no key update
                  skip locked
              ) t
          ) t
      ) per_row
  )
update "dbos".workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when (
          extract(
            epoch
            from
              clock_timestamp()
          ) * 1000
        )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
          extract(
            epoch
            from
              clock_timestamp()
          ) * 1000
        )::bigint
        else cast($5 as bigint)
      end
      else cast($5 as bigint)
    end
  end, rate_limited = case
    when p.returns then rate_limited
    else cast($8 as boolean)
  end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
    when workflow_timeout_ms is null then workflow_deadline_epoch_ms
    when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
    else cast($5 as bigint) + workflow_timeout_ms
  end, status = case
    when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    else 'PENDING'
  end, deduplication_id = case
    when recovery_attempts > p.most then null
    else deduplication_id
  end, completed_at = case
    when recovery_attempts > p.most then cast($5 as bigint)
  end
from
  picked p
where
  w.workflow_uuid = p.id
returning
  workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
  workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
  authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  (
    p.started is null
    and not exists (
      select
        1
      from
        "dbos".operation_outputs o
      where
        o.workflow_uuid = w.workflow_uuid
    )
  ) as never_ran,
  p.mixed as mixed;

-- workflows.dequeue-free (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    select
      1 as held
    where
      cast($9 as bigint) is null
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        with recursive
          own_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  own_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          other_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  other_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          places as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              true as own, rank
                            from
                              own_ranks
                            where
                              rank is not null
                            union all
                            select
                              false, rank
                            from
                              other_ranks
                            where
                              rank is not null
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          ),
          chosen as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              own, rank, cast(r.n as bigint) as n
                            from
                              places
                            where
                              (
                                select
                                  count(*)
                                from
                                  places
                              ) = 1
                            union all
                            select
                              own, priority, count(*)
                            from
                              (
                                select
                                  h.own, h.priority
                                from
                                  places p
                                  cross join lateral (
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          status || '' = 'ENQUEUED'
                                          and queue_name = $7
                                          and cast(r."partition" as text) is null
                                          and application_version = $4
                                          and p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                    union all
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          status || '' = 'ENQUEUED'
                                          and queue_name = $7
                                          and cast(r."partition" as text) is null
                                          and application_version is null
                                          and $4 = (
                                            select
                                              coalesce(name_in_app, version_name)
                                            from
                                              "dbos".application_versions
                                            where
                                              version_name >= ''
                                              and (
                                                application_name is null
                                                or application_name = $3
                                              )
                                            order by
                                              version_timestamp desc, created_at desc
                                            limit
                                              1
                                          )
                                          and not p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                  ) h
                                where
                                  (
                                    select
                                      count(*)
                                    from
                                      places
                                  ) > 1
                                order by
                                  enqueue_seq nulls first, created_at
                                limit
                                  r.n
                              ) t
                            group by
                              own, priority
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          )
        select
          t.*,
          (
            select
              count(*)
            from
              places
          ) > 1 as mixed
        from
          chosen c
          cross join lateral (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version = $4
                  and c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  status || '' = 'ENQUEUED'
                  and queue_name = $7
                  and cast(r."partition" as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and not c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
          ) t
        order by
          t.arrival nulls first, t.born
      ) per_row
  )
update "dbos".workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when (
          extract(
            epoch
            from
              clock_timestamp()
          ) * 1000
        )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
          extract(
            epoch
            from
              clock_timestamp()
          ) * 1000
        )::bigint
        else cast($5 as bigint)
      end
      else cast($5 as bigint)
    end
  end, rate_limited = case
    when p.returns then rate_limited
    else cast($8 as boolean)
  end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
    when workflow_timeout_ms is null then workflow_deadline_epoch_ms
    when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
    else cast($5 as bigint) + workflow_timeout_ms
  end, status = case
    when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    else 'PENDING'
  end, deduplication_id = case
    when recovery_attempts > p.most then null
    else deduplication_id
  end, completed_at = case
    when recovery_attempts > p.most then cast($5 as bigint)
  end
from
  picked p
where
  w.workflow_uuid = p.id
returning
  workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
  workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
  authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  (
    p.started is null
    and not exists (
      select
        1
      from
        "dbos".operation_outputs o
      where
        o.workflow_uuid = w.workflow_uuid
    )
  ) as never_ran,
  p.mixed as mixed;

-- workflows.dequeue-partitions-exclusive
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    update "dbos".queues
    set
      turn = turn + 1
    where
      name = $7
      and turn = cast($9 as bigint)
      and not paused
    returning
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        select
          case
            when not s.second then r.n
            when not s.first then 0
            else (
              select
                count(*) filter (
                  where
                    own
                )
              from
                (
                  select
                    own
                  from
                    (
                      select
                        *
                      from
                        (
                          select
                            true as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            '' || status = 'ENQUEUED'
                            and queue_name = $7
                            and queue_partition_key = r."partition"
                            and application_version = $4
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                      union all
                      select
                        *
                      from
                        (
                          select
                            false as own, priority, enqueue_seq, created_at
                          from
                            "dbos".workflow_status
                          where
                            '' || status = 'ENQUEUED'
                            and queue_name = $7
                            and queue_partition_key = r."partition"
                            and application_version is null
                            and $4 = (
                              select
                                coalesce(name_in_app, version_name)
                              from
                                "dbos".application_versions
                              where
                                version_name >= ''
                                and (
                                  application_name is null
                                  or application_name = $3
                                )
                              order by
                                version_timestamp desc, created_at desc
                              limit
                                1
                            )
                            and (
                              application_name is null
                              or application_name = $3
                            )
                            and (
                              select
                                coalesce(recovery_attempts, 0) > 0
                                and recovery_attempts * 2 >= k.most
                              from
                                known k
                              where
                                k.runnable = name
                                and k.class = coalesce(class_name, '')
                                and k.config = coalesce(config_name, '')
                            ) = false
                            and (
                              select
                                count(*)
                              from
                                guard
                            ) > 0
                          order by
                            application_version, priority, enqueue_seq nulls first, created_at
                          limit
                            r.n
                        ) t
                    ) t
                  order by
                    priority, enqueue_seq nulls first, created_at
                  limit
                    r.n
                ) t
            )
          end as own, s.first
          and s.second as mixed
        from
          (
            select
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      '' || status = 'ENQUEUED'
                      and queue_name = $7
                      and queue_partition_key = r."partition"
                      and application_version = $4
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as first,
              (
                select
                  count(*)
                from
                  (
                    select
                      1
                    from
                      "dbos".workflow_status
                    where
                      '' || status = 'ENQUEUED'
                      and queue_name = $7
                      and queue_partition_key = r."partition"
                      and application_version is null
                      and $4 = (
                        select
                          coalesce(name_in_app, version_name)
                        from
                          "dbos".application_versions
                        where
                          version_name >= ''
                          and (
                            application_name is null
                            or application_name = $3
                          )
                        order by
                          version_timestamp desc, created_at desc
                        limit
                          1
                      )
                    order by
                      application_version, priority, enqueue_seq nulls first, created_at
                    limit
                      1
                  ) t
              ) > 0 as second
            offset
              0
          ) s
        offset
          0
      ) share
      cross join lateral (
        select
          t.*, share.mixed
        from
          (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version = $4
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  share.own
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  r.n - share.own
                for no key update
                  skip locked
              ) t
          ) t
      ) per_row
  ),
  changed as (
    update "dbos".workflow_status as w
    set
      owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
      application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
      started_at_epoch_ms = case
        when p.returns then started_at_epoch_ms
        else case
          when cast($8 as boolean) then case
            when (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint
            else cast($5 as bigint)
          end
          else cast($5 as bigint)
        end
      end, rate_limited = case
        when p.returns then rate_limited
        else cast($8 as boolean)
      end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
        when workflow_timeout_ms is null then workflow_deadline_epoch_ms
        when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
        else cast($5 as bigint) + workflow_timeout_ms
      end, status = case
        when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        else 'PENDING'
      end, deduplication_id = case
        when recovery_attempts > p.most then null
        else deduplication_id
      end, completed_at = case
        when recovery_attempts > p.most then cast($5 as bigint)
      end
    from
      picked p
    where
      w.workflow_uuid = p.id
    returning
      workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
      workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
      authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
      coalesce(
        inputs,
        (
          select
            p.payload
          from
            (
              select
                workflow_uuid as payload_id, inputs as payload
              from
                "dbos".workflow_input
            ) p
          where
            p.payload_id = workflow_uuid
        )
      ) as inputs,
      (
        p.started is null
        and not exists (
          select
            1
          from
            "dbos".operation_outputs o
          where
            o.workflow_uuid = w.workflow_uuid
        )
      ) as never_ran,
      p.mixed as mixed
  )
select
  changed.*, held.held
from
  (
    select
      count(*) > 0 as held
    from
      guard
  ) held
  left join changed on true;

-- workflows.dequeue-partitions-exclusive (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      json_to_recordset($6::text::json) as k ("runnable" text, "class" text, "config" text, "most" int)
  ),
  guard as (
    update "dbos".queues
    set
      turn = turn + 1
    where
      name = $7
      and turn = cast($9 as bigint)
      and not paused
    returning
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      unnest($10::text[], $11::int[]) as r ("partition", "n")
      cross join lateral (
        with recursive
          own_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version = $4
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  own_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          other_ranks (rank) as (
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and priority > below.rank
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  1
              )
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              *
                            from
                              (
                                select
                                  rank
                                from
                                  other_ranks
                                where
                                  rank is not null
                              ) whole
                            limit
                              (
                                select
                                  null::bigint
                              )
                          ) tenth
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) hundredth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) thousandth
              ) below
          ),
          places as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              true as own, rank
                            from
                              own_ranks
                            where
                              rank is not null
                            union all
                            select
                              false, rank
                            from
                              other_ranks
                            where
                              rank is not null
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          ),
          chosen as materialized (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          (
                            select
                              own, rank, cast(r.n as bigint) as n
                            from
                              places
                            where
                              (
                                select
                                  count(*)
                                from
                                  places
                              ) = 1
                            union all
                            select
                              own, priority, count(*)
                            from
                              (
                                select
                                  h.own, h.priority
                                from
                                  places p
                                  cross join lateral (
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          '' || status = 'ENQUEUED'
                                          and queue_name = $7
                                          and queue_partition_key = r."partition"
                                          and application_version = $4
                                          and p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                    union all
                                    select
                                      *
                                    from
                                      (
                                        select
                                          p.own as own, priority, enqueue_seq, created_at
                                        from
                                          "dbos".workflow_status
                                        where
                                          '' || status = 'ENQUEUED'
                                          and queue_name = $7
                                          and queue_partition_key = r."partition"
                                          and application_version is null
                                          and $4 = (
                                            select
                                              coalesce(name_in_app, version_name)
                                            from
                                              "dbos".application_versions
                                            where
                                              version_name >= ''
                                              and (
                                                application_name is null
                                                or application_name = $3
                                              )
                                            order by
                                              version_timestamp desc, created_at desc
                                            limit
                                              1
                                          )
                                          and not p.own
                                          and priority = p.rank
                                          and (
                                            application_name is null
                                            or application_name = $3
                                          )
                                          and (
                                            select
                                              coalesce(recovery_attempts, 0) > 0
                                              and recovery_attempts * 2 >= k.most
                                            from
                                              known k
                                            where
                                              k.runnable = name
                                              and k.class = coalesce(class_name, '')
                                              and k.config = coalesce(config_name, '')
                                          ) = false
                                          and (
                                            select
                                              count(*)
                                            from
                                              guard
                                          ) > 0
                                        order by
                                          application_version, priority, enqueue_seq nulls first, created_at
                                        limit
                                          r.n
                                      ) t
                                  ) h
                                where
                                  (
                                    select
                                      count(*)
                                    from
                                      places
                                  ) > 1
                                order by
                                  enqueue_seq nulls first, created_at
                                limit
                                  r.n
                              ) t
                            group by
                              own, priority
                          ) whole
                        limit
                          (
                            select
                              null::bigint
                          )
                      ) tenth
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) hundredth
                limit
                  (
                    select
                      null::bigint
                  )
              ) thousandth
          )
        select
          t.*,
          (
            select
              count(*)
            from
              places
          ) > 1 as mixed
        from
          chosen c
          cross join lateral (
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version = $4
                  and c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
            union all
            select
              *
            from
              (
                select
                  workflow_uuid as id, started_at_epoch_ms as started,
                  (
                    resting_owner is not null
                    and started_at_epoch_ms is not null
                  ) as returns,
                  (
                    select
                      k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) as most,
                  enqueue_seq as arrival, created_at as born
                from
                  "dbos".workflow_status
                where
                  '' || status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = r."partition"
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      "dbos".application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $3
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and not c.own
                  and priority = c.rank
                  and (
                    application_name is null
                    or application_name = $3
                  )
                  and (
                    select
                      coalesce(recovery_attempts, 0) > 0
                      and recovery_attempts * 2 >= k.most
                    from
                      known k
                    where
                      k.runnable = name
                      and k.class = coalesce(class_name, '')
                      and k.config = coalesce(config_name, '')
                  ) = false
                  and (
                    select
                      count(*)
                    from
                      guard
                  ) > 0
                order by
                  application_version, priority, enqueue_seq nulls first, created_at
                limit
                  c.n
                for no key update
                  skip locked
              ) t
          ) t
        order by
          t.arrival nulls first, t.born
      ) per_row
  ),
  changed as (
    update "dbos".workflow_status as w
    set
      owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
      application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
      started_at_epoch_ms = case
        when p.returns then started_at_epoch_ms
        else case
          when cast($8 as boolean) then case
            when (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint between cast($5 as bigint) and cast($5 as bigint) + 3600000 then (
              extract(
                epoch
                from
                  clock_timestamp()
              ) * 1000
            )::bigint
            else cast($5 as bigint)
          end
          else cast($5 as bigint)
        end
      end, rate_limited = case
        when p.returns then rate_limited
        else cast($8 as boolean)
      end, resting_owner = null, recovery_attempts = recovery_attempts + 1, workflow_deadline_epoch_ms = case
        when workflow_timeout_ms is null then workflow_deadline_epoch_ms
        when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms
        else cast($5 as bigint) + workflow_timeout_ms
      end, status = case
        when recovery_attempts > p.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
        else 'PENDING'
      end, deduplication_id = case
        when recovery_attempts > p.most then null
        else deduplication_id
      end, completed_at = case
        when recovery_attempts > p.most then cast($5 as bigint)
      end
    from
      picked p
    where
      w.workflow_uuid = p.id
    returning
      workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
      workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
      authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
      coalesce(
        inputs,
        (
          select
            p.payload
          from
            (
              select
                workflow_uuid as payload_id, inputs as payload
              from
                "dbos".workflow_input
            ) p
          where
            p.payload_id = workflow_uuid
        )
      ) as inputs,
      (
        p.started is null
        and not exists (
          select
            1
          from
            "dbos".operation_outputs o
          where
            o.workflow_uuid = w.workflow_uuid
        )
      ) as never_ran,
      p.mixed as mixed
  )
select
  changed.*, held.held
from
  (
    select
      count(*) > 0 as held
    from
      guard
  ) held
  left join changed on true;

-- workflows.endings
select
  workflow_uuid, status, serialization, status_reason, case
    when status in ('PENDING', 'ENQUEUED', 'DELAYED') then null
    else case
      when coalesce(output, error) is null then (
        select
          p.payload
        from
          (
            select
              workflow_uuid as payload_id, output as payload
            from
              "dbos".workflow_output
          ) p
        where
          p.payload_id = workflow_uuid
      )
      else output
    end
  end as output, case
    when status in ('PENDING', 'ENQUEUED', 'DELAYED') then null
    else case
      when coalesce(output, error) is null then (
        select
          p.payload
        from
          (
            select
              workflow_uuid as payload_id, error as payload
            from
              "dbos".workflow_output
          ) p
        where
          p.payload_id = workflow_uuid
      )
      else error
    end
  end as error
from
  "dbos".workflow_status
where
  workflow_uuid = any ($1::text[]);

-- workflows.enqueue
with
  enqueue_turn as materialized (
    select
      nextval('"dbos".holdfast_enqueue_seq') as n
  ),
  given as materialized (
    select
      *
    from
      unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::jsonb[],
        $16::text[], $17::int[], $18::text[], $19::text[], $20::bigint[], $21::text[], $22::text[],
        $23::text[], $24::int[], $25::int[], $26::text[], $27::bool[], $28::int[]
      ) as g (
        "workflowId", "name", "className", "configName", "inputs", "serialization", "version", "appName",
        "createdAt", "timeoutMs", "deadlineAt", "user", "roles", "assumedRole", "attributes", "queueName",
        "priority", "dedupId", "partition", "delayUntil", "scheduleName", "parentWorkflowId", "parentOwner",
        "afterStep", "afterSeq", "afterAlso", "detached", "position"
      )
  ),
  held as materialized (
    select
      name
    from
      "dbos".holdfast_hold_queues (
        array(
          select distinct
            g."queueName"
          from
            given g
        )
      ) as held (name)
  )
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version,
    application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms,
    workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes, queue_name,
    priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, parent_workflow_id,
    detached, incarnation, enqueue_seq
  )
select
  r."workflowId", case
    when r."delayUntil" is null then 'ENQUEUED'
    else 'DELAYED'
  end, r.name, r."className", r."configName", r.inputs, r.serialization, r.version, r."appName", 0,
  r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user", r.roles, r."assumedRole",
  r.attributes, r."queueName", r.priority, r."dedupId",
  coalesce(
    r.partition,
    (
      select
        '(none)'
      from
        "dbos".queues p
      where
        p.name = r."queueName"
        and (
          p.partitioned
          or p.partition_queue
          or coalesce(
            p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
            p.partition_rate_limit_period_sec
          ) is not null
        )
    )
  ),
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, gen_random_uuid()::text,
  (
    select
      n
    from
      enqueue_turn
  ) * 1048576 + r.position
from
  given r
where
  true
  and (
    r."queueName" = '_dbos_internal_queue'
    or r."queueName" in (
      select
        name
      from
        held
    )
  )
on conflict do nothing
returning
  workflow_uuid;

-- workflows.enqueueAll
with
  enqueue_turn as materialized (
    select
      nextval('"dbos".holdfast_enqueue_seq') as n
  ),
  given as materialized (
    select
      *
    from
      json_to_recordset($1::text::json) as g (
        "workflowId" text, "name" text, "className" text, "configName" text, "inputs" text,
        "serialization" text, "version" text, "appName" text, "createdAt" bigint, "timeoutMs" bigint,
        "deadlineAt" bigint, "user" text, "roles" text, "assumedRole" text, "attributes" jsonb,
        "queueName" text, "priority" int, "dedupId" text, "partition" text, "delayUntil" bigint,
        "scheduleName" text, "parentWorkflowId" text, "parentOwner" text, "afterStep" int, "afterSeq" int,
        "afterAlso" text, "detached" bool, "position" int
      )
  ),
  held as materialized (
    select
      name
    from
      "dbos".holdfast_hold_queues (
        array(
          select distinct
            g."queueName"
          from
            given g
        )
      ) as held (name)
  )
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version,
    application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms,
    workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes, queue_name,
    priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, parent_workflow_id,
    detached, incarnation, enqueue_seq
  )
select
  r."workflowId", case
    when r."delayUntil" is null then 'ENQUEUED'
    else 'DELAYED'
  end, r.name, r."className", r."configName", r.inputs, r.serialization, r.version, r."appName", 0,
  r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user", r.roles, r."assumedRole",
  r.attributes, r."queueName", r.priority, r."dedupId",
  coalesce(
    r.partition,
    (
      select
        '(none)'
      from
        "dbos".queues p
      where
        p.name = r."queueName"
        and (
          p.partitioned
          or p.partition_queue
          or coalesce(
            p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
            p.partition_rate_limit_period_sec
          ) is not null
        )
    )
  ),
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, gen_random_uuid()::text,
  (
    select
      n
    from
      enqueue_turn
  ) * 1048576 + r.position
from
  given r
where
  not exists (
    select
      1
    from
      "dbos".workflow_status w
      join given r on w.workflow_uuid = r."workflowId"
    where
      (
        w.name = r.name
        and coalesce(w.class_name, '') = coalesce(r."className", '')
        and coalesce(w.config_name, '') = coalesce(r."configName", '')
      ) is not true
  )
  and not exists (
    select
      1
    from
      given r
    where
      not (
        r."queueName" = '_dbos_internal_queue'
        or r."queueName" in (
          select
            name
          from
            held
        )
      )
  )
order by
  r."workflowId" collate "C"
on conflict (workflow_uuid) do nothing
returning
  workflow_uuid;

-- workflows.enqueueChild
with
  enqueue_turn as materialized (
    select
      nextval('"dbos".holdfast_enqueue_seq') as n
  ),
  given as materialized (
    select
      *
    from
      unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::jsonb[],
        $16::text[], $17::int[], $18::text[], $19::text[], $20::bigint[], $21::text[], $22::text[],
        $23::text[], $24::int[], $25::int[], $26::text[], $27::bool[], $28::int[]
      ) as g (
        "workflowId", "name", "className", "configName", "inputs", "serialization", "version", "appName",
        "createdAt", "timeoutMs", "deadlineAt", "user", "roles", "assumedRole", "attributes", "queueName",
        "priority", "dedupId", "partition", "delayUntil", "scheduleName", "parentWorkflowId", "parentOwner",
        "afterStep", "afterSeq", "afterAlso", "detached", "position"
      )
  ),
  held as materialized (
    select
      name
    from
      "dbos".holdfast_hold_queues (
        array(
          select distinct
            g."queueName"
          from
            given g
        )
      ) as held (name)
  )
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, application_version,
    application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms,
    workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes, queue_name,
    priority, deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, parent_workflow_id,
    detached, incarnation, enqueue_seq
  )
select
  r."workflowId", case
    when r."delayUntil" is null then 'ENQUEUED'
    else 'DELAYED'
  end, r.name, r."className", r."configName", r.inputs, r.serialization, r.version, r."appName", 0,
  r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user", r.roles, r."assumedRole",
  r.attributes, r."queueName", r.priority, r."dedupId",
  coalesce(
    r.partition,
    (
      select
        '(none)'
      from
        "dbos".queues p
      where
        p.name = r."queueName"
        and (
          p.partitioned
          or p.partition_queue
          or coalesce(
            p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
            p.partition_rate_limit_period_sec
          ) is not null
        )
    )
  ),
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, gen_random_uuid()::text,
  (
    select
      n
    from
      enqueue_turn
  ) * 1048576 + r.position
from
  given r
  cross join lateral (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.workflow_uuid = r."parentWorkflowId"
      and w.owner_xid = r."parentOwner"
      and w.status || '' = 'PENDING'
    for share
  ) fence
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        "dbos".operation_outputs p
      where
        p.workflow_uuid = r."parentWorkflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        json_to_recordset(r."afterAlso"::text::json) as x ("step" int, "seq" int, "child" text)
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                "dbos".operation_outputs p
              where
                p.workflow_uuid = r."parentWorkflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              "dbos".workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
  and (
    r."queueName" = '_dbos_internal_queue'
    or r."queueName" in (
      select
        name
      from
        held
    )
  )
on conflict do nothing
returning
  workflow_uuid;

-- workflows.expired
select
  workflow_uuid
from
  "dbos".workflow_status
where
  status in ('ENQUEUED', 'PENDING', 'DELAYED')
  and workflow_deadline_epoch_ms is not null
  and workflow_deadline_epoch_ms <= $1
limit
  $2;

-- workflows.expired-page
with
  page as materialized (
    select
      workflow_uuid as id, completed_at, parent_workflow_id, status, application_name, schedule_name
    from
      "dbos".workflow_status
    where
      completed_at is not null
      and completed_at < cast($2 as bigint)
      and completed_at >= cast($3 as bigint)
      and (
        completed_at > cast($3 as bigint)
        or workflow_uuid > $4
      )
    order by
      completed_at, workflow_uuid
    limit
      cast($5 as int)
  )
select
  id, completed_at,
  (
    status in ('SUCCESS', 'ERROR', 'CANCELLED')
    and (
      application_name is null
      or application_name = $1
    )
    and not exists (
      select
        1
      from
        "dbos".workflow_status w
      where
        w.workflow_uuid = page.parent_workflow_id
    )
    and not exists (
      select
        1
      from
        "dbos".workflow_schedules s
      where
        s.schedule_name = page.schedule_name
        and page.id = 'sched-' || s.schedule_name || '-' || substr(page.id, length(page.id) - 23)
        and s.active_since is not null
        and coalesce(s.last_fired_at, '') < substr(page.id, length(page.id) - 23)
    )
  ) as is_root
from
  page
order by
  completed_at, id;

-- workflows.finish
update "dbos".workflow_status as w
set
  status = r.status, output = r.output, error = r.error, under_way = r."underWay",
  completed_at = r."completedAt", updated_at = r."completedAt", deduplication_id = null
from
  unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::int[],
    $9::int[], $10::text[]
  ) as r (
    "workflowId", "owner", "status", "output", "error", "underWay", "completedAt", "afterStep", "afterSeq",
    "afterAlso"
  )
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status || '' = 'PENDING'
  and (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        "dbos".operation_outputs p
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
        json_to_recordset(r."afterAlso"::text::json) as x ("step" int, "seq" int, "child" text)
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                "dbos".operation_outputs p
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
              "dbos".workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
returning
  workflow_uuid;

-- workflows.fork
with
  main as (
    with
      enqueue_turn as materialized (
        select
          nextval('"dbos".holdfast_enqueue_seq') as n
      ),
      held as materialized (
        select
          workflow_uuid as id
        from
          "dbos".workflow_status
        where
          workflow_uuid in (
            select
              r."forkedFrom"
            from
              unnest(
                $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[],
                $8::text[], $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
              ) as r (
                "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
                "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
              )
            union
            select
              coalesce(
                (
                  select
                    x.new
                  from
                    json_to_recordset(r.children::text::json) as x ("old" text, "new" text)
                  where
                    x.old = c.child_workflow_id
                ),
                c.child_workflow_id
              )
            from
              unnest(
                $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[],
                $8::text[], $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
              ) as r (
                "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
                "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
              )
              join "dbos".operation_outputs c on c.workflow_uuid = r."forkedFrom"
              and c.function_id < r."fromStep"
            where
              c.child_workflow_id is not null
          )
        order by
          workflow_uuid collate "C"
        for no key update
      )
    insert into
      "dbos".workflow_status (
        workflow_uuid, status, inputs, name, class_name, config_name, serialization, request, application_id,
        authenticated_user, authenticated_roles, assumed_role, attributes, forked_from, application_version,
        application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms, queue_name,
        priority, queue_partition_key, delay_until_epoch_ms, incarnation, seed, began_at, enqueue_seq
      )
    select
      r."workflowId", case
        when r."delayUntil" is null then 'ENQUEUED'
        else 'DELAYED'
      end,
      coalesce(
        o.inputs,
        (
          select
            p.payload
          from
            (
              select
                workflow_uuid as payload_id, inputs as payload
              from
                "dbos".workflow_input
            ) p
          where
            p.payload_id = o.workflow_uuid
        )
      ),
      o.name, o.class_name, o.config_name, o.serialization, o.request, o.application_id, o.authenticated_user,
      o.authenticated_roles, o.assumed_role, o.attributes, o.workflow_uuid,
      coalesce(r.version, o.application_version), coalesce(r."appName", o.application_name), 0, r."createdAt",
      r."createdAt", case
        when r.untimed then null
        else coalesce(r."timeoutMs", o.workflow_timeout_ms)
      end, r."queueName", r.priority,
      coalesce(
        r.partition,
        (
          select
            '(none)'
          from
            "dbos".queues p
          where
            p.name = r."queueName"
            and (
              p.partitioned
              or p.partition_queue
              or coalesce(
                p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
                p.partition_rate_limit_period_sec
              ) is not null
            )
        )
      ),
      r."delayUntil", gen_random_uuid()::text, case
        when r."fromStep" > 0 then coalesce(o.seed, o.workflow_uuid)
      end, case
        when r."fromStep" > 0 then coalesce(o.began_at, o.created_at)
      end,
      (
        select
          n
        from
          enqueue_turn
      ) * 1048576 + 0
    from
      unnest(
        $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
        $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
      ) as r (
        "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority", "version",
        "appName", "timeoutMs", "untimed", "delayUntil", "children"
      )
      join "dbos".workflow_status o on o.workflow_uuid = r."forkedFrom"
    where
      r."fromStep" <= coalesce(
        (
          select
            max(function_id) + 1
          from
            "dbos".operation_outputs
          where
            workflow_uuid = r."forkedFrom"
        ),
        0
      )
      and (
        r."queueName" = '_dbos_internal_queue'
        or r."queueName" in (
          select
            name
          from
            "dbos".holdfast_hold_queues (
              array(
                select
                  r."queueName"
              )
            ) as held (name)
        )
      )
      and exists (
        select
          1
        from
          held
        where
          held.id = o.workflow_uuid
      )
    on conflict (workflow_uuid) do nothing
    returning
      workflow_uuid, true as landed
  ),
  also0 as (
    insert into
      "dbos".operation_outputs (
        workflow_uuid, function_id, function_name, output, error, serialization, started_at_epoch_ms,
        completed_at_epoch_ms, completion_seq, requested_after, application_name, child_workflow_id
      )
    select
      r."workflowId", c.function_id, c.function_name, c.output, c.error, c.serialization,
      c.started_at_epoch_ms, c.completed_at_epoch_ms, c.completion_seq, c.requested_after, c.application_name,
      coalesce(
        (
          select
            x.new
          from
            json_to_recordset(r.children::text::json) as x ("old" text, "new" text)
          where
            x.old = c.child_workflow_id
        ),
        c.child_workflow_id
      )
    from
      (
        select
          r.*
        from
          unnest(
            $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
            $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
          ) as r (
            "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
            "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      ) r
      join "dbos".operation_outputs c on c.workflow_uuid = r."forkedFrom"
      and c.function_id < r."fromStep"
  ),
  also1 as (
    insert into
      "dbos".workflow_events_history (workflow_uuid, function_id, key, value, serialization)
    select
      r."workflowId", c.function_id, c.key, c.value, c.serialization
    from
      (
        select
          r.*
        from
          unnest(
            $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
            $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
          ) as r (
            "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
            "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      ) r
      join "dbos".workflow_events_history c on c.workflow_uuid = r."forkedFrom"
      and c.function_id < r."fromStep"
  ),
  also2 as (
    insert into
      "dbos".workflow_events (workflow_uuid, key, value, serialization)
    select
      last.id, last.key, last.value, last.serialization
    from
      (
        select
          r."workflowId" as id, c.key, c.value, c.serialization,
          row_number() over (
            partition by
              c.key
            order by
              coalesce(s.completion_seq, -1) desc, c.function_id desc
          ) as nth
        from
          (
            select
              r.*
            from
              unnest(
                $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[],
                $8::text[], $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
              ) as r (
                "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
                "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
              )
            where
              exists (
                select
                  1
                from
                  main
                where
                  landed
              )
          ) r
          join "dbos".workflow_events_history c on c.workflow_uuid = r."forkedFrom"
          and c.function_id < r."fromStep"
          left join "dbos".operation_outputs s on s.workflow_uuid = c.workflow_uuid
          and s.function_id = c.function_id
      ) last
    where
      last.nth = 1
  ),
  also3 as (
    insert into
      "dbos".streams (workflow_uuid, key, value, "offset", function_id, serialization)
    select
      r."workflowId", c.key, c.value,
      row_number() over (
        partition by
          c.key
        order by
          c."offset"
      ) - 1,
      c.function_id, c.serialization
    from
      (
        select
          r.*
        from
          unnest(
            $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
            $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
          ) as r (
            "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
            "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      ) r
      join "dbos".streams c on c.workflow_uuid = r."forkedFrom"
      and c.function_id < r."fromStep"
  ),
  also4 as (
    update "dbos".workflow_status
    set
      was_forked_from = true
    where
      not was_forked_from
      and workflow_uuid in (
        select
          r."forkedFrom"
        from
          unnest(
            $1::text[], $2::text[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[],
            $9::text[], $10::bigint[], $11::bool[], $12::bigint[], $13::text[]
          ) as r (
            "workflowId", "forkedFrom", "fromStep", "createdAt", "queueName", "partition", "priority",
            "version", "appName", "timeoutMs", "untimed", "delayUntil", "children"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
  )
select
  *
from
  main;

-- workflows.get
select
  workflow_uuid, status, name, class_name, config_name, serialization, executor_id, owner_xid,
  application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
  completed_at, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id, queue_name, priority,
  deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, authenticated_user,
  authenticated_roles, assumed_role, attributes, status_reason, forked_from, was_forked_from, seed, began_at,
  incarnation, retries, under_way,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, output as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else output
  end as output, case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, error as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  "dbos".workflow_status
where
  workflow_uuid = any ($1::text[]);

-- workflows.holders
select
  w.queue_name, w.deduplication_id, w.workflow_uuid, w.name, w.class_name, w.config_name
from
  json_to_recordset($1::text::json) as k ("queueName" text, "dedupId" text)
  join "dbos".workflow_status w on w.queue_name = k."queueName"
  and w.deduplication_id = k."dedupId"
  and w.deduplication_id is not null;

-- workflows.insert
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, executor_id, owner_xid,
    application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
    workflow_timeout_ms, workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role,
    attributes, parent_workflow_id, detached, enqueue_seq, incarnation
  )
select
  r."workflowId", 'PENDING', r.name, r."className", r."configName", r.inputs, r.serialization, $1, r.owner,
  r.version, $2, 1, r."createdAt", r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user",
  r.roles, r."assumedRole", r.attributes, null, false, null, r.owner
from
  unnest(
    $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[], $17::jsonb[]
  ) as r (
    "workflowId", "name", "className", "configName", "inputs", "serialization", "owner", "version",
    "createdAt", "timeoutMs", "deadlineAt", "user", "roles", "assumedRole", "attributes"
  )
where
  true
on conflict (workflow_uuid) do nothing
returning
  owner_xid;

-- workflows.insertChild
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, config_name, inputs, serialization, executor_id, owner_xid,
    application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
    workflow_timeout_ms, workflow_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role,
    attributes, parent_workflow_id, detached, enqueue_seq, incarnation
  )
select
  r."workflowId", 'PENDING', r.name, r."className", r."configName", r.inputs, r.serialization, $1, r.owner,
  r.version, $2, 1, r."createdAt", r."createdAt", r."createdAt", r."timeoutMs", r."deadlineAt", r."user",
  r.roles, r."assumedRole", r.attributes, r."parentWorkflowId", r.detached, null, r.owner
from
  unnest(
    $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[], $17::jsonb[],
    $18::text[], $19::text[], $20::bool[], $21::int[], $22::int[], $23::text[]
  ) as r (
    "workflowId", "name", "className", "configName", "inputs", "serialization", "owner", "version",
    "createdAt", "timeoutMs", "deadlineAt", "user", "roles", "assumedRole", "attributes", "parentWorkflowId",
    "parentOwner", "detached", "afterStep", "afterSeq", "afterAlso"
  )
  cross join lateral (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.workflow_uuid = r."parentWorkflowId"
      and w.owner_xid = r."parentOwner"
      and w.status || '' = 'PENDING'
    for share
  ) fence
where
  (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        "dbos".operation_outputs p
      where
        p.workflow_uuid = r."parentWorkflowId"
        and p.function_id = r."afterStep"
    )
  )
  and (
    r."afterAlso" is null
    or not exists (
      select
        1
      from
        json_to_recordset(r."afterAlso"::text::json) as x ("step" int, "seq" int, "child" text)
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                "dbos".operation_outputs p
              where
                p.workflow_uuid = r."parentWorkflowId"
                and p.function_id = x.step
            ),
            -1
          ) <> x.seq
          else (
            select
              1
            from
              "dbos".workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
on conflict (workflow_uuid) do nothing
returning
  owner_xid;

-- workflows.list
select
  workflow_uuid, status, name, class_name, config_name, serialization, executor_id, owner_xid,
  application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
  completed_at, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id, queue_name, priority,
  deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, authenticated_user,
  authenticated_roles, assumed_role, attributes, status_reason, forked_from, was_forked_from, seed, began_at,
  incarnation, retries, under_way,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, output as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else output
  end as output, case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, error as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  "dbos".workflow_status
where
  true
  and workflow_uuid = any ($1::text[])
  and status = any ($2::text[])
  and name = $3
  and executor_id = $4
  and application_version = $5
  and parent_workflow_id = $6
  and queue_name = $7
  and schedule_name = $8
  and forked_from = $9
order by
  created_at desc, workflow_uuid desc
limit
  $10
offset
  $11;

-- workflows.list
select
  workflow_uuid, status, name, class_name, config_name, serialization, executor_id, owner_xid,
  application_version, application_name, recovery_attempts, created_at, updated_at, started_at_epoch_ms,
  completed_at, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id, queue_name, priority,
  deduplication_id, queue_partition_key, delay_until_epoch_ms, schedule_name, authenticated_user,
  authenticated_roles, assumed_role, attributes, status_reason, forked_from, was_forked_from, seed, began_at,
  incarnation, retries, under_way,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, output as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else output
  end as output, case
    when coalesce(output, error) is null then (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, error as payload
          from
            "dbos".workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  "dbos".workflow_status
where
  true
order by
  created_at asc, workflow_uuid asc
limit
  $1
offset
  $2;

-- workflows.markSuspended
update "dbos".workflow_status as w
set
  resting_owner = r.owner
from
  unnest($1::text[], $2::text[], $3::int[], $4::int[], $5::text[]) as r ("workflowId", "owner", "afterStep", "afterSeq", "afterAlso")
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status || '' = 'PENDING'
  and (
    r."afterStep" is null
    or r."afterSeq" = (
      select
        p.completion_seq
      from
        "dbos".operation_outputs p
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
        json_to_recordset(r."afterAlso"::text::json) as x ("step" int, "seq" int, "child" text)
      where
        case
          when x.child is null then coalesce(
            (
              select
                p.completion_seq
              from
                "dbos".operation_outputs p
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
              "dbos".workflow_status c
            where
              c.workflow_uuid = x.child
          ) is null
        end
    )
  )
returning
  workflow_uuid;

-- workflows.obstacles
with recursive
  tree (root, id) as (
    select
      *
    from
      (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      workflow_uuid as root, workflow_uuid as id
                    from
                      "dbos".workflow_status
                    where
                      workflow_uuid = any ($1::text[])
                  ) whole
                limit
                  (
                    select
                      null::bigint
                  )
              ) tenth
            limit
              (
                select
                  null::bigint
              )
          ) hundredth
        limit
          (
            select
              null::bigint
          )
      ) thousandth
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          parent_workflow_id = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) c
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      w.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'child', t.id, w.parent_workflow_id
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (t.id = any ($1::text[]))
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) w
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = w.parent_workflow_id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) p
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".operation_outputs
                        where
                          child_workflow_id = t.id
                          and child_workflow_id is not null
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) o
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          workflow_uuid = o.workflow_uuid
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) u
    where
      u.status in ('PENDING', 'ENQUEUED', 'DELAYED')
  )
select
  kind, id, other
from
  obstacles
order by
  case kind
    when 'child' then 0
    when 'unfinished' then 1
    else 2
  end, id
limit
  100;

-- workflows.pending
select
  workflow_uuid, status, name, class_name, config_name, serialization, recovery_attempts, created_at,
  workflow_deadline_epoch_ms, parent_workflow_id, queue_partition_key, authenticated_user,
  authenticated_roles, assumed_role, attributes, seed, began_at, incarnation, retries,
  coalesce(
    inputs,
    (
      select
        p.payload
      from
        (
          select
            workflow_uuid as payload_id, inputs as payload
          from
            "dbos".workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  owner_xid, queue_name
from
  "dbos".workflow_status
where
  workflow_uuid = any ($1::text[])
  and status = 'PENDING';

-- workflows.promoteDue
with
  due as materialized (
    select
      workflow_uuid as id
    from
      "dbos".workflow_status
    where
      status = 'DELAYED'
      and delay_until_epoch_ms <= cast($1 as bigint)
    order by
      delay_until_epoch_ms
    limit
      $2
    for no key update
      skip locked
  )
update "dbos".workflow_status
set
  status = 'ENQUEUED', updated_at = cast($1 as bigint), deduplication_id = case
    when is_debounced then null
    else deduplication_id
  end
where
  workflow_uuid in (
    select
      id
    from
      due
  )
returning
  queue_name;

-- workflows.receipts
select
  consumed_by
from
  "dbos".notifications
where
  destination_uuid = $1
  and consumed
  and consumed_by is not null;

-- workflows.release
update "dbos".workflow_status as w
set
  status = 'ENQUEUED', queue_name = coalesce(queue_name, $1), updated_at = $2, owner_xid = null,
  executor_id = null, first_started_at = coalesce(first_started_at, started_at_epoch_ms),
  recovery_attempts = case
    when recovery_attempts > 0 then recovery_attempts - 1
    else 0
  end
from
  unnest($3::text[], $4::text[]) as r ("workflowId", "owner")
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status || '' = 'PENDING'
returning
  workflow_uuid;

-- workflows.release-unlocked
update "dbos".workflow_status as w
set
  status = 'ENQUEUED', queue_name = coalesce(queue_name, $1), updated_at = $2, owner_xid = null,
  executor_id = null, first_started_at = coalesce(first_started_at, started_at_epoch_ms),
  recovery_attempts = case
    when recovery_attempts > 0 then recovery_attempts - 1
    else 0
  end
from
  unnest($3::text[], $4::text[]) as r ("workflowId", "owner")
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status || '' = 'PENDING'
  and w.workflow_uuid in (
    select
      l.workflow_uuid
    from
      "dbos".workflow_status l
    where
      l.workflow_uuid = r."workflowId"
    for no key update
      skip locked
  )
returning
  workflow_uuid;

-- workflows.resume
with recursive
  tree (id) as (
    select
      *
    from
      (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      workflow_uuid
                    from
                      "dbos".workflow_status
                    where
                      workflow_uuid = any ($1::text[])
                      and status in ('CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'STALLED')
                  ) whole
                limit
                  (
                    select
                      null::bigint
                  )
              ) tenth
            limit
              (
                select
                  null::bigint
              )
          ) hundredth
        limit
          (
            select
              null::bigint
          )
      ) thousandth
    union
    select
      c.workflow_uuid
    from
      tree t
      cross join lateral (
        select
          *
        from
          (
            select
              *
            from
              (
                select
                  *
                from
                  (
                    select
                      *
                    from
                      (
                        select
                          *
                        from
                          "dbos".workflow_status
                        where
                          parent_workflow_id = t.id
                      ) whole
                    limit
                      (
                        select
                          null::bigint
                      )
                  ) tenth
                limit
                  (
                    select
                      null::bigint
                  )
              ) hundredth
            limit
              (
                select
                  null::bigint
              )
          ) thousandth
      ) c
    where
      not c.detached
      and c.status = 'CANCELLED'
      and not exists (
        select
          1
        from
          "dbos".operation_outputs o
        where
          o.workflow_uuid = t.id
          and o.child_workflow_id = c.workflow_uuid
          and o.function_name = 'DBOS.getResult'
      )
  )
update "dbos".workflow_status
set
  status = 'ENQUEUED', updated_at = $3, owner_xid = null, queue_name = case
    when workflow_uuid = any ($1::text[])
    and cast($4 as text) in (
      select
        name
      from
        "dbos".holdfast_hold_queues (null) as held (name)
    ) then cast($4 as text)
    when queue_name in (
      select
        name
      from
        "dbos".holdfast_hold_queues (null) as held (name)
    ) then queue_name
    else $2
  end, queue_partition_key = case
    when workflow_uuid = any ($1::text[])
    and cast($4 as text) in (
      select
        name
      from
        "dbos".holdfast_hold_queues (null) as held (name)
    ) then coalesce(
      cast($5 as text),
      (
        select
          '(none)'
        from
          "dbos".queues p
        where
          p.name = cast($4 as text)
          and (
            p.partitioned
            or p.partition_queue
            or coalesce(
              p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
              p.partition_rate_limit_period_sec
            ) is not null
          )
      )
    )
    else coalesce(
      queue_partition_key,
      (
        select
          '(none)'
        from
          "dbos".queues p
        where
          p.name = queue_name
          and (
            p.partitioned
            or p.partition_queue
            or coalesce(
              p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
              p.partition_rate_limit_period_sec
            ) is not null
          )
      )
    )
  end, executor_id = null, recovery_attempts = 0, first_started_at = null, resting_owner = null,
  workflow_deadline_epoch_ms = null, completed_at = null, error = null, status_reason = null
where
  workflow_uuid in (
    select
      id
    from
      tree
  )
  and status in ('CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'STALLED')
returning
  workflow_uuid, queue_name;

-- workflows.retention-cutoff
select
  completed_at
from
  "dbos".workflow_status
where
  completed_at is not null
  and (
    application_name is null
    or application_name = $1
  )
order by
  completed_at desc
limit
  1
offset
  cast($2 as int);

-- workflows.retry
with
  main as (
    update "dbos".workflow_status as w
    set
      status = 'ENQUEUED', updated_at = r.now, owner_xid = null, queue_name = case
        when queue_name in (
          select
            name
          from
            "dbos".holdfast_hold_queues (null) as held (name)
        ) then queue_name
        else r."queueName"
      end,
      queue_partition_key = coalesce(
        queue_partition_key,
        (
          select
            '(none)'
          from
            "dbos".queues p
          where
            p.name = queue_name
            and (
              p.partitioned
              or p.partition_queue
              or coalesce(
                p.partition_concurrency, p.partition_worker_concurrency, p.partition_rate_limit_max,
                p.partition_rate_limit_period_sec
              ) is not null
            )
        )
      ),
      application_version = coalesce(r.version, application_version), executor_id = null,
      recovery_attempts = 0, first_started_at = null, resting_owner = null, workflow_deadline_epoch_ms = null,
      completed_at = null, output = null, error = null, status_reason = null, under_way = null,
      retries = r.after
    from
      unnest(
        $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::bigint[]
      ) as r (
        "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName", "now"
      )
    where
      w.workflow_uuid = r."workflowId"
      and w.status = 'ERROR'
      and w.created_at = r."createdAt"
      and coalesce(w.incarnation, '') = coalesce(r.incarnation, '')
      and coalesce(w.retries, '') = coalesce(r.before, '')
    returning
      workflow_uuid, queue_name, true as landed
  ),
  also0 as (
    delete from "dbos".operation_outputs
    where
      workflow_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
      and function_id in (
        select
          x.n
        from
          json_to_recordset(
            (
              select
                r.dropped
              from
                unnest(
                  $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::bigint[]
                ) as r (
                  "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version",
                  "queueName", "now"
                )
              where
                exists (
                  select
                    1
                  from
                    main
                  where
                    landed
                )
            )::text::json
          ) as x ("n" int)
      )
  ),
  also1 as (
    delete from "dbos".workflow_output
    where
      workflow_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
  ),
  also2 as (
    delete from "dbos".step_attempts
    where
      workflow_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
  ),
  also3 as (
    delete from "dbos".workflow_events_history
    where
      workflow_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
      and function_id in (
        select
          x.n
        from
          json_to_recordset(
            (
              select
                r.dropped
              from
                unnest(
                  $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::bigint[]
                ) as r (
                  "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version",
                  "queueName", "now"
                )
              where
                exists (
                  select
                    1
                  from
                    main
                  where
                    landed
                )
            )::text::json
          ) as x ("n" int)
      )
  ),
  also4 as (
    delete from "dbos".streams
    where
      workflow_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
      and function_id in (
        select
          x.n
        from
          json_to_recordset(
            (
              select
                r.dropped
              from
                unnest(
                  $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::bigint[]
                ) as r (
                  "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version",
                  "queueName", "now"
                )
              where
                exists (
                  select
                    1
                  from
                    main
                  where
                    landed
                )
            )::text::json
          ) as x ("n" int)
      )
      and value in ('"__DBOS_STREAM_CLOSED__"', '__DBOS_STREAM_CLOSED__')
  ),
  also5 as (
    update "dbos".notifications
    set
      consumed = false, consumed_by = null
    where
      consumed
      and destination_uuid = (
        select
          r."workflowId"
        from
          unnest(
            $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::bigint[]
          ) as r (
            "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version", "queueName",
            "now"
          )
        where
          exists (
            select
              1
            from
              main
            where
              landed
          )
      )
      and consumed_by in (
        select
          x.n
        from
          json_to_recordset(
            (
              select
                r.dropped
              from
                unnest(
                  $1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::text[], $9::bigint[]
                ) as r (
                  "workflowId", "incarnation", "createdAt", "before", "after", "dropped", "version",
                  "queueName", "now"
                )
              where
                exists (
                  select
                    1
                  from
                    main
                  where
                    landed
                )
            )::text::json
          ) as x ("n" int)
      )
  )
select
  *
from
  main;

-- workflows.setDelay
update "dbos".workflow_status
set
  delay_until_epoch_ms = $2, updated_at = $3
where
  workflow_uuid = $1
  and status = 'DELAYED'
returning
  queue_name;

-- workflows.setPriority
update "dbos".workflow_status
set
  priority = $2, updated_at = $3
where
  workflow_uuid = $1
  and status in ('ENQUEUED', 'DELAYED')
returning
  queue_name;

-- workflows.stall
update "dbos".workflow_status
set
  status = 'STALLED', status_reason = $3, error = $5, updated_at = $4, completed_at = $4,
  deduplication_id = null, recovery_attempts = case
    when recovery_attempts > 1 then recovery_attempts - 1
    else recovery_attempts
  end
where
  workflow_uuid = $1
  and owner_xid = $2
  and status = 'PENDING'
returning
  workflow_uuid;

-- workflows.step-count
select
  coalesce(
    (
      select
        max(function_id) + 1
      from
        "dbos".operation_outputs
      where
        workflow_uuid = $1
    ),
    0
  ) as count;

