-- takeovers.cancel-by-executor
with recursive
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  ),
  fates as materialized (
    select
      f.*
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most", value ->> 'oldest' as "oldest", value ->> 'too_old' as "too_old",
          value ->> 'exceeded' as "exceeded", value ->> 'not_resumed' as "not_resumed",
          value ->> 'aside' as "aside", value ->> 'resumes' as "resumes"
        from
          json_each($7)
      ) as f
  ),
  roots as materialized (
    select
      workflow_uuid as id,
      (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) as reason
    from
      workflow_status
    where
      status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and executor_id in (
        select
          value
        from
          json_each($3)
      )
      and (
        exists (
          select
            1
          from
            bereft b
          where
            b.executor = executor_id
            and case
              when b.incarnation is null then not exists (
                select
                  1
                from
                  live l
                where
                  substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
              )
              else substr(owner_xid, 1, length(b.incarnation) + 1) = b.incarnation || '.'
            end
        )
      ) is true
      and (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) is not null
    limit
      $8
  ),
  tree (id, reason) as (
    select
      id, reason
    from
      roots
    union
    select
      c.workflow_uuid, t.reason
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
    where
      not c.detached
  ),
  picked as materialized (
    select
      workflow_uuid as id
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
  status = 'CANCELLED', completed_at = cast($6 as bigint), updated_at = cast($6 as bigint),
  status_reason = (
    select
      min(t.reason)
    from
      tree t
    where
      t.id = workflow_uuid
  ),
  deduplication_id = null
where
  workflow_uuid in (
    select
      id
    from
      picked
  )
  and status in ('PENDING', 'ENQUEUED', 'DELAYED')
returning
  workflow_uuid, owner_xid, status_reason, queue_name, name;

-- takeovers.cancel-by-id
with recursive
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  ),
  fates as materialized (
    select
      f.*
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most", value ->> 'oldest' as "oldest", value ->> 'too_old' as "too_old",
          value ->> 'exceeded' as "exceeded", value ->> 'not_resumed' as "not_resumed",
          value ->> 'aside' as "aside", value ->> 'resumes' as "resumes"
        from
          json_each($7)
      ) as f
  ),
  roots as materialized (
    select
      workflow_uuid as id,
      (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) as reason
    from
      workflow_status
    where
      status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and workflow_uuid in (
        select
          value
        from
          json_each($3)
      )
      and (
        not exists (
          select
            1
          from
            live l
          where
            substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
        )
      ) is true
      and (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) is not null
    limit
      $8
  ),
  tree (id, reason) as (
    select
      id, reason
    from
      roots
    union
    select
      c.workflow_uuid, t.reason
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
    where
      not c.detached
  ),
  picked as materialized (
    select
      workflow_uuid as id
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
  status = 'CANCELLED', completed_at = cast($6 as bigint), updated_at = cast($6 as bigint),
  status_reason = (
    select
      min(t.reason)
    from
      tree t
    where
      t.id = workflow_uuid
  ),
  deduplication_id = null
where
  workflow_uuid in (
    select
      id
    from
      picked
  )
  and status in ('PENDING', 'ENQUEUED', 'DELAYED')
returning
  workflow_uuid, owner_xid, status_reason, queue_name, name;

-- takeovers.descendants
with recursive
  tree (id, root) as (
    select
      workflow_uuid as id, workflow_uuid as root
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
      c.workflow_uuid, t.root
    from
      tree t
      join workflow_status c on c.parent_workflow_id = t.id
    where
      not c.detached
  )
select
  w.workflow_uuid, w.name, min(t.root) as root
from
  tree t
  join workflow_status w on w.workflow_uuid = t.id
where
  t.id <> t.root
  and w.status in ('PENDING', 'ENQUEUED', 'DELAYED')
group by
  w.workflow_uuid, w.name;

-- takeovers.executors
select distinct
  executor_id
from
  workflow_status
where
  status = 'PENDING'
  and executor_id is not null
  and application_version = $2
  and (
    application_name is null
    or application_name = $1
  );

-- takeovers.incomplete
select
  workflow_uuid, name, class_name, config_name, executor_id, owner_xid, application_version, status,
  recovery_attempts, created_at, coalesce(first_started_at, started_at_epoch_ms, created_at) as started_at
from
  workflow_status
where
  status = 'PENDING'
  and true
  and (
    application_name is null
    or application_name = $1
  )
  and workflow_uuid in (
    select
      value
    from
      json_each($2)
  )
  and executor_id in (
    select
      value
    from
      json_each($3)
  )
  and name = $4
  and (
    created_at > cast($5 as bigint)
    or (
      created_at = cast($5 as bigint)
      and workflow_uuid > $6
    )
  )
union all
select
  workflow_uuid, name, class_name, config_name, executor_id, owner_xid, application_version, status,
  recovery_attempts, created_at, coalesce(first_started_at, started_at_epoch_ms, created_at) as started_at
from
  workflow_status
where
  status = 'ENQUEUED'
  and queue_name = '_dbos_internal_queue'
  and application_version is not null
  and not (
    application_version in (
      select
        value
      from
        json_each($7)
    )
  )
  and true
  and (
    application_name is null
    or application_name = $1
  )
  and workflow_uuid in (
    select
      value
    from
      json_each($2)
  )
  and executor_id in (
    select
      value
    from
      json_each($3)
  )
  and name = $4
  and (
    created_at > cast($5 as bigint)
    or (
      created_at = cast($5 as bigint)
      and workflow_uuid > $6
    )
  )
order by
  created_at, workflow_uuid
limit
  $8
offset
  $9;

-- takeovers.incomplete
select
  workflow_uuid, name, class_name, config_name, executor_id, owner_xid, application_version, status,
  recovery_attempts, created_at, coalesce(first_started_at, started_at_epoch_ms, created_at) as started_at
from
  workflow_status
where
  status = 'PENDING'
  and true
  and (
    application_name is null
    or application_name = $1
  )
order by
  created_at, workflow_uuid
limit
  $2
offset
  $3;

-- takeovers.left-by-executor
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  )
select
  name, class_name, config_name, min(workflow_uuid) as workflow_uuid, count(*) as count
from
  workflow_status
where
  status = 'PENDING'
  and application_version = $2
  and (
    application_name is null
    or application_name = $1
  )
  and executor_id in (
    select
      value
    from
      json_each($3)
  )
  and (
    exists (
      select
        1
      from
        bereft b
      where
        b.executor = executor_id
        and case
          when b.incarnation is null then not exists (
            select
              1
            from
              live l
            where
              substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
          )
          else substr(owner_xid, 1, length(b.incarnation) + 1) = b.incarnation || '.'
        end
    )
  ) is true
group by
  name, class_name, config_name;

-- takeovers.left-by-id
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  )
select
  name, class_name, config_name, min(workflow_uuid) as workflow_uuid, count(*) as count
from
  workflow_status
where
  status = 'PENDING'
  and application_version = $2
  and (
    application_name is null
    or application_name = $1
  )
  and workflow_uuid in (
    select
      value
    from
      json_each($3)
  )
  and (
    not exists (
      select
        1
      from
        live l
      where
        substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
    )
  ) is true
group by
  name, class_name, config_name;

-- takeovers.otherVersions
select
  application_version, count(*) as count
from
  (
    select
      application_version
    from
      workflow_status
    where
      status = 'PENDING'
      and application_version <> $2
      and (
        application_name is null
        or application_name = $1
      )
    union all
    select
      application_version
    from
      workflow_status
    where
      status = 'ENQUEUED'
      and queue_name = '_dbos_internal_queue'
      and application_version <> $2
      and (
        application_name is null
        or application_name = $1
      )
  ) as others
group by
  application_version
order by
  application_version;

-- takeovers.pendingUnder
select
  workflow_uuid, owner_xid
from
  workflow_status
where
  status = 'PENDING'
  and executor_id = $1
  and application_version = $2
  and substr(owner_xid, 1, length(cast($3 as text)) + 1) = cast($3 as text) || '.';

-- takeovers.putBackUnlocked-by-executor
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  ),
  fates as materialized (
    select
      f.*
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most", value ->> 'oldest' as "oldest", value ->> 'too_old' as "too_old",
          value ->> 'exceeded' as "exceeded", value ->> 'not_resumed' as "not_resumed",
          value ->> 'aside' as "aside", value ->> 'resumes' as "resumes"
        from
          json_each($7)
      ) as f
  ),
  found as materialized (
    select
      workflow_uuid as id
    from
      workflow_status
    where
      status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and executor_id in (
        select
          value
        from
          json_each($3)
      )
      and (
        exists (
          select
            1
          from
            bereft b
          where
            b.executor = executor_id
            and case
              when b.incarnation is null then not exists (
                select
                  1
                from
                  live l
                where
                  substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
              )
              else substr(owner_xid, 1, length(b.incarnation) + 1) = b.incarnation || '.'
            end
        )
      ) is true
      and (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) is null
      and (
        (name, coalesce(class_name, ''), coalesce(config_name, '')) in (
          select
            runnable, class, config
          from
            fates
          where
            resumes
        )
      ) is true
    limit
      $8
  ),
  picked as materialized (
    select
      workflow_uuid as id
    from
      workflow_status w
    where
      workflow_uuid in (
        select
          id
        from
          found
      )
      and w.status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and executor_id in (
        select
          value
        from
          json_each($3)
      )
      and (
        exists (
          select
            1
          from
            bereft b
          where
            b.executor = executor_id
            and case
              when b.incarnation is null then not exists (
                select
                  1
                from
                  live l
                where
                  substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
              )
              else substr(owner_xid, 1, length(b.incarnation) + 1) = b.incarnation || '.'
            end
        )
      ) is true
    order by
      workflow_uuid
  )
update workflow_status as w
set
  status = case
    when f.aside is not null then 'STALLED'
    when coalesce(recovery_attempts, 0) > f.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    else 'ENQUEUED'
  end, recovery_attempts = case
    when f.aside is null
    and coalesce(recovery_attempts, 0) > f.most then recovery_attempts + 1
    else recovery_attempts
  end, status_reason = f.aside, updated_at = cast($6 as bigint), completed_at = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else cast($6 as bigint)
  end, owner_xid = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else owner_xid
  end, executor_id = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else executor_id
  end, queue_name = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then coalesce(queue_name, $9)
    else queue_name
  end, deduplication_id = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then deduplication_id
  end, first_started_at = coalesce(first_started_at, started_at_epoch_ms)
from
  fates f
where
  f.runnable = w.name
  and f.class = coalesce(w.class_name, '')
  and f.config = coalesce(w.config_name, '')
  and workflow_uuid in (
    select
      id
    from
      picked
  )
returning
  workflow_uuid, status, name, class_name, config_name, queue_name, recovery_attempts, created_at;

-- takeovers.putBackUnlocked-by-id
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  ),
  fates as materialized (
    select
      f.*
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most", value ->> 'oldest' as "oldest", value ->> 'too_old' as "too_old",
          value ->> 'exceeded' as "exceeded", value ->> 'not_resumed' as "not_resumed",
          value ->> 'aside' as "aside", value ->> 'resumes' as "resumes"
        from
          json_each($7)
      ) as f
  ),
  found as materialized (
    select
      workflow_uuid as id
    from
      workflow_status
    where
      status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and workflow_uuid in (
        select
          value
        from
          json_each($3)
      )
      and (
        not exists (
          select
            1
          from
            live l
          where
            substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
        )
      ) is true
      and (
        select
          coalesce(
            case
              when coalesce(first_started_at, started_at_epoch_ms, created_at) < f.oldest then f.too_old
              when coalesce(recovery_attempts, 0) > f.most then f.exceeded
            end, f.not_resumed
          )
        from
          fates f
        where
          f.runnable = name
          and f.class = coalesce(class_name, '')
          and f.config = coalesce(config_name, '')
      ) is null
      and (
        (name, coalesce(class_name, ''), coalesce(config_name, '')) in (
          select
            runnable, class, config
          from
            fates
          where
            resumes
        )
      ) is true
    limit
      $8
  ),
  picked as materialized (
    select
      workflow_uuid as id
    from
      workflow_status w
    where
      workflow_uuid in (
        select
          id
        from
          found
      )
      and w.status = 'PENDING'
      and application_version = $2
      and (
        application_name is null
        or application_name = $1
      )
      and workflow_uuid in (
        select
          value
        from
          json_each($3)
      )
      and (
        not exists (
          select
            1
          from
            live l
          where
            substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
        )
      ) is true
    order by
      workflow_uuid
  )
update workflow_status as w
set
  status = case
    when f.aside is not null then 'STALLED'
    when coalesce(recovery_attempts, 0) > f.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    else 'ENQUEUED'
  end, recovery_attempts = case
    when f.aside is null
    and coalesce(recovery_attempts, 0) > f.most then recovery_attempts + 1
    else recovery_attempts
  end, status_reason = f.aside, updated_at = cast($6 as bigint), completed_at = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else cast($6 as bigint)
  end, owner_xid = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else owner_xid
  end, executor_id = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then null
    else executor_id
  end, queue_name = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then coalesce(queue_name, $9)
    else queue_name
  end, deduplication_id = case
    when f.aside is null
    and not (coalesce(recovery_attempts, 0) > f.most) then deduplication_id
  end, first_started_at = coalesce(first_started_at, started_at_epoch_ms)
from
  fates f
where
  f.runnable = w.name
  and f.class = coalesce(w.class_name, '')
  and f.config = coalesce(w.config_name, '')
  and workflow_uuid in (
    select
      id
    from
      picked
  )
returning
  workflow_uuid, status, name, class_name, config_name, queue_name, recovery_attempts, created_at;

-- takeovers.stranded-by-executor
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  )
select
  application_version, count(*) as count
from
  workflow_status
where
  status = 'PENDING'
  and application_version <> $2
  and (
    application_name is null
    or application_name = $1
  )
  and executor_id in (
    select
      value
    from
      json_each($3)
  )
  and (
    exists (
      select
        1
      from
        bereft b
      where
        b.executor = executor_id
        and case
          when b.incarnation is null then not exists (
            select
              1
            from
              live l
            where
              substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
          )
          else substr(owner_xid, 1, length(b.incarnation) + 1) = b.incarnation || '.'
        end
    )
  ) is true
group by
  application_version;

-- takeovers.stranded-by-id
with
  said as materialized (
    select
      l.incarnation, l.dead
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'dead' as "dead"
        from
          json_each($4)
      ) as l
  ),
  live as materialized (
    select
      incarnation
    from
      said
    where
      not dead
    union
    select
      e.incarnation
    from
      executors e
    where
      exists (
        select
          1
        from
          said
        where
          incarnation is null
      )
      and e.incarnation not in (
        select
          s.incarnation
        from
          said s
        where
          s.dead
          and s.incarnation is not null
      )
  ),
  meant as materialized (
    select
      b.executor, b.incarnation, b.beats
    from
      (
        select
          value ->> 'executor' as "executor", value ->> 'incarnation' as "incarnation",
          value ->> 'beats' as "beats"
        from
          json_each($5)
      ) as b
  ),
  heard as materialized (
    select
      incarnation, beats
    from
      executors
    where
      incarnation in (
        select
          incarnation
        from
          meant
      )
  ),
  bereft as materialized (
    select
      b.executor, b.incarnation
    from
      meant b
    where
      b.beats is null
      or not exists (
        select
          1
        from
          heard h
        where
          h.incarnation = b.incarnation
          and h.beats > b.beats
      )
  )
select
  application_version, count(*) as count
from
  workflow_status
where
  status = 'PENDING'
  and application_version <> $2
  and (
    application_name is null
    or application_name = $1
  )
  and workflow_uuid in (
    select
      value
    from
      json_each($3)
  )
  and (
    not exists (
      select
        1
      from
        live l
      where
        substr(owner_xid, 1, length(l.incarnation) + 1) = l.incarnation || '.'
    )
  ) is true
group by
  application_version;

