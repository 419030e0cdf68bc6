-- workflows.cancel
with recursive
  tree (id) as (
    select
      workflow_uuid
    from
      workflow_status
    where
      workflow_uuid in (
        select
          value
        from
          json_each($1)
      )
    union
    select
      c.workflow_uuid
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
    where
      not c.detached
  ),
  picked as materialized (
    select
      workflow_uuid
    from
      workflow_status
    where
      workflow_uuid in (
        select
          id
        from
          tree
      )
      and status in ('PENDING', 'ENQUEUED', 'DELAYED')
    order by
      workflow_uuid
  )
update workflow_status
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
  workflow_status
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
            workflow_input
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
            workflow_output
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
            workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  workflow_status
where
  status = 'PENDING'
  and executor_id = $2
  and application_version = $3
  and owner_xid = $1;

-- workflows.debounce
with
  given as (
    select
      cast($1 as text) as "workflowId", cast($2 as text) as "name", cast($3 as text) as "className",
      cast($4 as text) as "configName", cast($5 as text) as "inputs", cast($6 as text) as "serialization",
      cast($7 as text) as "version", cast($8 as text) as "appName", cast($9 as bigint) as "createdAt",
      cast($10 as bigint) as "timeoutMs", cast($11 as bigint) as "deadlineAt", cast($12 as text) as "user",
      cast($13 as text) as "roles", cast($14 as text) as "assumedRole", cast($15 as text) as "attributes",
      cast($16 as text) as "queueName", cast($17 as int) as "priority", cast($18 as text) as "dedupId",
      cast($19 as text) as "partition", cast($20 as bigint) as "delayUntil",
      cast($21 as text) as "scheduleName", cast($22 as text) as "parentWorkflowId",
      cast($23 as boolean) as "detached", cast($24 as bigint) as "debounceTimeoutMs"
  ),
  held as materialized (
    select
      name
    from
      queues
    where
      name in (
        select distinct
          g."queueName"
        from
          given g
      )
  )
insert into
  workflow_status as w (
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
        queues p
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
  end, r."scheduleName", r."parentWorkflowId", r.detached, lower(hex (randomblob (16))),
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + 0,
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
      workflow_uuid as root, workflow_uuid as id
    from
      workflow_status
    where
      workflow_uuid in (
        select
          value
        from
          json_each($1)
      )
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
    where
      w.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'child', t.id, w.parent_workflow_id
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (
        t.id in (
          select
            value
          from
            json_each($1)
        )
      )
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
      cross join workflow_status p on p.workflow_uuid = w.parent_workflow_id
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join operation_outputs o on o.child_workflow_id = t.id
      and o.child_workflow_id is not null
      cross join workflow_status u on u.workflow_uuid = o.workflow_uuid
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
  )
delete from workflow_status
where
  workflow_uuid in (
    select
      id
    from
      picked
  )
returning
  workflow_uuid;

-- workflows.delete-expired
with recursive
  tree (root, id) as (
    select
      workflow_uuid as root, workflow_uuid as id
    from
      workflow_status
    where
      workflow_uuid in (
        select
          value
        from
          json_each($1)
      )
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
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
      cross join workflow_status w on w.workflow_uuid = t.id
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (
        t.id in (
          select
            value
          from
            json_each($1)
        )
      )
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
      cross join workflow_status p on p.workflow_uuid = w.parent_workflow_id
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED', 'STALLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join operation_outputs o on o.child_workflow_id = t.id
      and o.child_workflow_id is not null
      cross join workflow_status u on u.workflow_uuid = o.workflow_uuid
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
  )
delete from workflow_status
where
  workflow_uuid in (
    select
      id
    from
      picked
  )
returning
  workflow_uuid;

-- workflows.dequeue-exclusive
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  guard as (
    select
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and cast($10 as text) is null
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
        union all
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and cast($10 as text) is null
          and application_version is null
          and $4 = (
            select
              coalesce(name_in_app, version_name)
            from
              application_versions
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
          priority, enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

-- workflows.dequeue-exclusive (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  guard as (
    select
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      (
        with recursive
          ranks0 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version = $4
                  and priority > ranks0.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks0
            where
              ranks0.rank is not null
          ),
          ranks1 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  and priority > ranks1.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks1
            where
              ranks1.rank is not null
          )
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
          priority, enqueue_seq, created_at
        from
          ranks0 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and cast($10 as text) is null
              and application_version = $4
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        union all
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
          priority, enqueue_seq, created_at
        from
          ranks1 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and cast($10 as text) is null
              and application_version is null
              and $4 = (
                select
                  coalesce(name_in_app, version_name)
                from
                  application_versions
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
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        order by
          enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

-- workflows.dequeue-free
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and cast($10 as text) is null
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
        union all
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and cast($10 as text) is null
          and application_version is null
          and $4 = (
            select
              coalesce(name_in_app, version_name)
            from
              application_versions
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
          priority, enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

-- workflows.dequeue-free (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
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
      (
        with recursive
          ranks0 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version = $4
                  and priority > ranks0.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks0
            where
              ranks0.rank is not null
          ),
          ranks1 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and cast($10 as text) is null
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  and priority > ranks1.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks1
            where
              ranks1.rank is not null
          )
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
          priority, enqueue_seq, created_at
        from
          ranks0 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and cast($10 as text) is null
              and application_version = $4
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        union all
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
          priority, enqueue_seq, created_at
        from
          ranks1 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and cast($10 as text) is null
              and application_version is null
              and $4 = (
                select
                  coalesce(name_in_app, version_name)
                from
                  application_versions
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
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        order by
          enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

-- workflows.dequeue-partitions-exclusive
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  guard as (
    select
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and queue_partition_key = $10
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
        union all
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
          priority, enqueue_seq, created_at
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $7
          and queue_partition_key = $10
          and application_version is null
          and $4 = (
            select
              coalesce(name_in_app, version_name)
            from
              application_versions
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
          priority, enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

-- workflows.dequeue-partitions-exclusive (first-come)
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  guard as (
    select
      1 as held
  ),
  picked as materialized (
    select
      per_row.*
    from
      (
        with recursive
          ranks0 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = $10
                  and application_version = $4
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = $10
                  and application_version = $4
                  and priority > ranks0.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks0
            where
              ranks0.rank is not null
          ),
          ranks1 (rank) as (
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = $10
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            union all
            select
              (
                select
                  priority
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $7
                  and queue_partition_key = $10
                  and application_version is null
                  and $4 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
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
                  and priority > ranks1.rank
                order by
                  application_version, priority, enqueue_seq, created_at
                limit
                  1
              )
            from
              ranks1
            where
              ranks1.rank is not null
          )
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
          priority, enqueue_seq, created_at
        from
          ranks0 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and queue_partition_key = $10
              and application_version = $4
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        union all
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
          priority, enqueue_seq, created_at
        from
          ranks1 k
          cross join workflow_status
        where
          likelihood (k.rank is not null, 0.0001)
          and workflow_uuid in (
            select
              workflow_uuid
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $7
              and queue_partition_key = $10
              and application_version is null
              and $4 = (
                select
                  coalesce(name_in_app, version_name)
                from
                  application_versions
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
              and priority = k.rank
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
              application_version, priority, enqueue_seq, created_at
            limit
              $11
          )
        order by
          enqueue_seq, created_at
        limit
          $11
      ) per_row
  )
update workflow_status as w
set
  owner_xid = $1, executor_id = $2, application_version = coalesce(application_version, $4),
  application_name = coalesce(application_name, $3), updated_at = cast($5 as bigint),
  started_at_epoch_ms = case
    when p.returns then started_at_epoch_ms
    else case
      when cast($8 as boolean) then case
        when cast(round((julianday ('now') - 2440587.5) * 86400000) as integer) between cast($5 as bigint) and cast($5 as bigint) + 3600000 then cast(round((julianday ('now') - 2440587.5) * 86400000) as integer)
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  workflow_status.retries is null
  and not exists (
    select
      1
    from
      operation_outputs o
    where
      o.workflow_uuid = workflow_status.workflow_uuid
  )
  and not exists (
    select
      1
    from
      step_attempts a
    where
      a.workflow_uuid = workflow_status.workflow_uuid
  ) as never_ran,
  false as mixed;

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
              workflow_output
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
              workflow_output
          ) p
        where
          p.payload_id = workflow_uuid
      )
      else error
    end
  end as error
from
  workflow_status
where
  workflow_uuid in (
    select
      value
    from
      json_each($1)
  );

-- workflows.enqueue
with
  given as materialized (
    select
      *
    from
      (
        select
          $1 as "workflowId", $2 as "name", $3 as "className", $4 as "configName", $5 as "inputs",
          $6 as "serialization", $7 as "version", $8 as "appName", $9 as "createdAt", $10 as "timeoutMs",
          $11 as "deadlineAt", $12 as "user", $13 as "roles", $14 as "assumedRole", $15 as "attributes",
          $16 as "queueName", $17 as "priority", $18 as "dedupId", $19 as "partition", $20 as "delayUntil",
          $21 as "scheduleName", $22 as "parentWorkflowId", $23 as "parentOwner", $24 as "afterStep",
          $25 as "afterSeq", $26 as "afterAlso", $27 as "detached", $28 as "position"
      ) as g
  ),
  held as materialized (
    select
      name
    from
      queues
    where
      name in (
        select distinct
          g."queueName"
        from
          given g
      )
  )
insert into
  workflow_status (
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
        queues p
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
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, lower(hex (randomblob (16))),
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + 0
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
  given as materialized (
    select
      *
    from
      (
        select
          value ->> 'workflowId' as "workflowId", value ->> 'name' as "name",
          value ->> 'className' as "className", value ->> 'configName' as "configName",
          value ->> 'inputs' as "inputs", value ->> 'serialization' as "serialization",
          value ->> 'version' as "version", value ->> 'appName' as "appName",
          value ->> 'createdAt' as "createdAt", value ->> 'timeoutMs' as "timeoutMs",
          value ->> 'deadlineAt' as "deadlineAt", value ->> 'user' as "user", value ->> 'roles' as "roles",
          value ->> 'assumedRole' as "assumedRole", value ->> 'attributes' as "attributes",
          value ->> 'queueName' as "queueName", value ->> 'priority' as "priority",
          value ->> 'dedupId' as "dedupId", value ->> 'partition' as "partition",
          value ->> 'delayUntil' as "delayUntil", value ->> 'scheduleName' as "scheduleName",
          value ->> 'parentWorkflowId' as "parentWorkflowId", value ->> 'parentOwner' as "parentOwner",
          value ->> 'afterStep' as "afterStep", value ->> 'afterSeq' as "afterSeq",
          value ->> 'afterAlso' as "afterAlso", value ->> 'detached' as "detached",
          value ->> 'position' as "position"
        from
          json_each($1)
      ) as g
  ),
  held as materialized (
    select
      name
    from
      queues
    where
      name in (
        select distinct
          g."queueName"
        from
          given g
      )
  )
insert into
  workflow_status (
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
        queues p
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
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, lower(hex (randomblob (16))),
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + r.position
from
  given r
where
  not exists (
    select
      1
    from
      workflow_status w
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
  r."workflowId"
on conflict (workflow_uuid) do nothing
returning
  workflow_uuid;

-- workflows.enqueueChild
with
  given as materialized (
    select
      *
    from
      (
        select
          $1 as "workflowId", $2 as "name", $3 as "className", $4 as "configName", $5 as "inputs",
          $6 as "serialization", $7 as "version", $8 as "appName", $9 as "createdAt", $10 as "timeoutMs",
          $11 as "deadlineAt", $12 as "user", $13 as "roles", $14 as "assumedRole", $15 as "attributes",
          $16 as "queueName", $17 as "priority", $18 as "dedupId", $19 as "partition", $20 as "delayUntil",
          $21 as "scheduleName", $22 as "parentWorkflowId", $23 as "parentOwner", $24 as "afterStep",
          $25 as "afterSeq", $26 as "afterAlso", $27 as "detached", $28 as "position"
      ) as g
  ),
  held as materialized (
    select
      name
    from
      queues
    where
      name in (
        select distinct
          g."queueName"
        from
          given g
      )
  )
insert into
  workflow_status (
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
        queues p
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
  r."delayUntil", r."scheduleName", r."parentWorkflowId", r.detached, lower(hex (randomblob (16))),
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + 0
from
  given r
  join workflow_status fence on fence.workflow_uuid = r."parentWorkflowId"
  and fence.owner_xid = r."parentOwner"
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
                p.workflow_uuid = r."parentWorkflowId"
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
  workflow_status
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
      workflow_status
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
        workflow_status w
      where
        w.workflow_uuid = page.parent_workflow_id
    )
    and not exists (
      select
        1
      from
        workflow_schedules s
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
update workflow_status as w
set
  status = r.status, output = r.output, error = r.error, under_way = r."underWay",
  completed_at = r."completedAt", updated_at = r."completedAt", deduplication_id = null
from
  (
    select
      $1 as "workflowId", $2 as "owner", $3 as "status", $4 as "output", $5 as "error", $6 as "underWay",
      $7 as "completedAt", $8 as "afterStep", $9 as "afterSeq", $10 as "afterAlso"
  ) as r
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status = 'PENDING'
  and (
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
returning
  workflow_uuid;

-- workflows.fork
insert into
  workflow_status (
    workflow_uuid, status, inputs, name, class_name, config_name, serialization, request, application_id,
    authenticated_user, authenticated_roles, assumed_role, attributes, forked_from, application_version,
    application_name, recovery_attempts, created_at, updated_at, workflow_timeout_ms, queue_name, priority,
    queue_partition_key, delay_until_epoch_ms, incarnation, seed, began_at, enqueue_seq
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
            workflow_input
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
        queues p
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
  r."delayUntil", lower(hex (randomblob (16))), case
    when r."fromStep" > 0 then coalesce(o.seed, o.workflow_uuid)
  end, case
    when r."fromStep" > 0 then coalesce(o.began_at, o.created_at)
  end,
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + 0
from
  (
    select
      $1 as "workflowId", $2 as "forkedFrom", $3 as "fromStep", $4 as "createdAt", $5 as "queueName",
      $6 as "partition", $7 as "priority", $8 as "version", $9 as "appName", $10 as "timeoutMs",
      $11 as "untimed", $12 as "delayUntil", $13 as "children"
  ) as r
  join workflow_status o on o.workflow_uuid = r."forkedFrom"
where
  r."fromStep" <= coalesce(
    (
      select
        max(function_id) + 1
      from
        operation_outputs
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
        queues
      where
        name in (
          select
            r."queueName"
        )
    )
  )
on conflict (workflow_uuid) do nothing
returning
  workflow_uuid, true as landed;

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
            workflow_input
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
            workflow_output
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
            workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  workflow_status
where
  workflow_uuid in (
    select
      value
    from
      json_each($1)
  );

-- workflows.holders
select
  w.queue_name, w.deduplication_id, w.workflow_uuid, w.name, w.class_name, w.config_name
from
  (
    select
      value ->> 'queueName' as "queueName", value ->> 'dedupId' as "dedupId"
    from
      json_each($1)
  ) as k
  join workflow_status w on w.queue_name = k."queueName"
  and w.deduplication_id = k."dedupId"
  and w.deduplication_id is not null;

-- workflows.insert
insert into
  workflow_status (
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
  (
    select
      $3 as "workflowId", $4 as "name", $5 as "className", $6 as "configName", $7 as "inputs",
      $8 as "serialization", $9 as "owner", $10 as "version", $11 as "createdAt", $12 as "timeoutMs",
      $13 as "deadlineAt", $14 as "user", $15 as "roles", $16 as "assumedRole", $17 as "attributes"
  ) as r
where
  true
on conflict (workflow_uuid) do nothing
returning
  owner_xid;

-- workflows.insertChild
insert into
  workflow_status (
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
  (
    select
      $3 as "workflowId", $4 as "name", $5 as "className", $6 as "configName", $7 as "inputs",
      $8 as "serialization", $9 as "owner", $10 as "version", $11 as "createdAt", $12 as "timeoutMs",
      $13 as "deadlineAt", $14 as "user", $15 as "roles", $16 as "assumedRole", $17 as "attributes",
      $18 as "parentWorkflowId", $19 as "parentOwner", $20 as "detached", $21 as "afterStep",
      $22 as "afterSeq", $23 as "afterAlso"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."parentWorkflowId"
  and fence.owner_xid = r."parentOwner"
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
                p.workflow_uuid = r."parentWorkflowId"
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
            workflow_input
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
            workflow_output
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
            workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  workflow_status
where
  true
  and workflow_uuid in (
    select
      value
    from
      json_each($1)
  )
  and status in (
    select
      value
    from
      json_each($2)
  )
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
            workflow_input
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
            workflow_output
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
            workflow_output
        ) p
      where
        p.payload_id = workflow_uuid
    )
    else error
  end as error
from
  workflow_status
where
  true
order by
  created_at asc, workflow_uuid asc
limit
  $1
offset
  $2;

-- workflows.markSuspended
update workflow_status as w
set
  resting_owner = r.owner
from
  (
    select
      $1 as "workflowId", $2 as "owner", $3 as "afterStep", $4 as "afterSeq", $5 as "afterAlso"
  ) as r
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status = 'PENDING'
  and (
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
returning
  workflow_uuid;

-- workflows.obstacles
with recursive
  tree (root, id) as (
    select
      workflow_uuid as root, workflow_uuid as id
    from
      workflow_status
    where
      workflow_uuid in (
        select
          value
        from
          json_each($1)
      )
    union
    select
      t.root, c.workflow_uuid
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
  ),
  obstacles as materialized (
    select
      t.root, 'unfinished' as kind, t.id, w.status as other
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
    where
      w.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'child', t.id, w.parent_workflow_id
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
    where
      not cast($2 as boolean)
      and t.id <> t.root
      and not (
        t.id in (
          select
            value
          from
            json_each($1)
        )
      )
    union all
    select
      t.root, 'needed', t.id, p.workflow_uuid
    from
      tree t
      cross join workflow_status w on w.workflow_uuid = t.id
      cross join workflow_status p on p.workflow_uuid = w.parent_workflow_id
    where
      p.status in ('PENDING', 'ENQUEUED', 'DELAYED')
    union all
    select
      t.root, 'needed', t.id, u.workflow_uuid
    from
      tree t
      cross join operation_outputs o on o.child_workflow_id = t.id
      and o.child_workflow_id is not null
      cross join workflow_status u on u.workflow_uuid = o.workflow_uuid
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
            workflow_input
        ) p
      where
        p.payload_id = workflow_uuid
    )
  ) as inputs,
  owner_xid, queue_name
from
  workflow_status
where
  workflow_uuid in (
    select
      value
    from
      json_each($1)
  )
  and status = 'PENDING';

-- workflows.promoteDue
with
  due as materialized (
    select
      workflow_uuid as id
    from
      workflow_status
    where
      status = 'DELAYED'
      and delay_until_epoch_ms <= cast($1 as bigint)
    order by
      delay_until_epoch_ms
    limit
      $2
  )
update workflow_status
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
  notifications
where
  destination_uuid = $1
  and consumed
  and consumed_by is not null;

-- workflows.release
update workflow_status as w
set
  status = 'ENQUEUED', queue_name = coalesce(queue_name, $1), updated_at = $2, owner_xid = null,
  executor_id = null, first_started_at = coalesce(first_started_at, started_at_epoch_ms),
  recovery_attempts = case
    when recovery_attempts > 0 then recovery_attempts - 1
    else 0
  end
from
  (
    select
      $3 as "workflowId", $4 as "owner"
  ) as r
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status = 'PENDING'
returning
  workflow_uuid;

-- workflows.release-unlocked
update workflow_status as w
set
  status = 'ENQUEUED', queue_name = coalesce(queue_name, $1), updated_at = $2, owner_xid = null,
  executor_id = null, first_started_at = coalesce(first_started_at, started_at_epoch_ms),
  recovery_attempts = case
    when recovery_attempts > 0 then recovery_attempts - 1
    else 0
  end
from
  (
    select
      $3 as "workflowId", $4 as "owner"
  ) as r
where
  w.workflow_uuid = r."workflowId"
  and w.owner_xid = r.owner
  and w.status = 'PENDING'
  and w.workflow_uuid in (
    select
      l.workflow_uuid
    from
      workflow_status l
    where
      l.workflow_uuid = r."workflowId"
  )
returning
  workflow_uuid;

-- workflows.resume
with recursive
  tree (id) as (
    select
      workflow_uuid
    from
      workflow_status
    where
      workflow_uuid in (
        select
          value
        from
          json_each($1)
      )
      and status in ('CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'STALLED')
    union
    select
      c.workflow_uuid
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
    where
      not c.detached
      and c.status = 'CANCELLED'
      and not exists (
        select
          1
        from
          operation_outputs o
        where
          o.workflow_uuid = t.id
          and o.child_workflow_id = c.workflow_uuid
          and o.function_name = 'DBOS.getResult'
      )
  )
update workflow_status
set
  status = 'ENQUEUED', updated_at = $3, owner_xid = null, queue_name = case
    when workflow_uuid in (
      select
        value
      from
        json_each($1)
    )
    and cast($4 as text) in (
      select
        name
      from
        queues
      where
        name >= ''
    ) then cast($4 as text)
    when queue_name in (
      select
        name
      from
        queues
      where
        name >= ''
    ) then queue_name
    else $2
  end, queue_partition_key = case
    when workflow_uuid in (
      select
        value
      from
        json_each($1)
    )
    and cast($4 as text) in (
      select
        name
      from
        queues
      where
        name >= ''
    ) then coalesce(
      cast($5 as text),
      (
        select
          '(none)'
        from
          queues p
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
          queues p
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
  workflow_status
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
update workflow_status as w
set
  status = 'ENQUEUED', updated_at = r.now, owner_xid = null, queue_name = case
    when queue_name in (
      select
        name
      from
        queues
      where
        name >= ''
    ) then queue_name
    else r."queueName"
  end,
  queue_partition_key = coalesce(
    queue_partition_key,
    (
      select
        '(none)'
      from
        queues p
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
  application_version = coalesce(r.version, application_version), executor_id = null, recovery_attempts = 0,
  first_started_at = null, resting_owner = null, workflow_deadline_epoch_ms = null, completed_at = null,
  output = null, error = null, status_reason = null, under_way = null, retries = r.after
from
  (
    select
      $1 as "workflowId", $2 as "incarnation", $3 as "createdAt", $4 as "before", $5 as "after",
      $6 as "dropped", $7 as "version", $8 as "queueName", $9 as "now"
  ) as r
where
  w.workflow_uuid = r."workflowId"
  and w.status = 'ERROR'
  and w.created_at = r."createdAt"
  and coalesce(w.incarnation, '') = coalesce(r.incarnation, '')
  and coalesce(w.retries, '') = coalesce(r.before, '')
returning
  workflow_uuid, queue_name, true as landed;

-- workflows.setDelay
update workflow_status
set
  delay_until_epoch_ms = $2, updated_at = $3
where
  workflow_uuid = $1
  and status = 'DELAYED'
returning
  queue_name;

-- workflows.setPriority
update workflow_status
set
  priority = $2, updated_at = $3
where
  workflow_uuid = $1
  and status in ('ENQUEUED', 'DELAYED')
returning
  queue_name;

-- workflows.stall
update workflow_status
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
        operation_outputs
      where
        workflow_uuid = $1
    ),
    0
  ) as count;

