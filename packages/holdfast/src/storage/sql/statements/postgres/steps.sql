-- steps.attempt
insert into
  "dbos".step_attempts as a (workflow_uuid, function_id, attempt, next_at, token, interrupted)
select
  r."workflowId", r."stepNumber", coalesce(r.attempt, 1), r."nextAt", r.token, ''
from
  unnest(
    $2::text[], $3::text[], $4::int[], $5::text[], $6::int[], $7::bigint[], $8::bigint[], $9::int[],
    $10::int[], $11::text[]
  ) as r (
    "workflowId", "owner", "stepNumber", "token", "attempt", "nextAt", "at", "afterStep", "afterSeq",
    "afterAlso"
  )
  cross join lateral (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.workflow_uuid = r."workflowId"
      and w.owner_xid = r.owner
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
update "dbos".operation_outputs as o
set
  completion_seq = f."completionSeq", completed_at_epoch_ms = f."completedAt"
from
  (
    select
      r.*
    from
      unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::int[], $7::int[], $8::text[]) as r (
        "workflowId", "owner", "stepNumber", "completedAt", "completionSeq", "afterStep", "afterSeq",
        "afterAlso"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
  "dbos".operation_outputs
where
  workflow_uuid = any ($1::text[]);

-- steps.record
insert into
  "dbos".operation_outputs (
    workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
  )
select
  r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
  r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
from
  unnest(
    $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[]
  ) as r (
    "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
    "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso"
  )
  cross join lateral (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.workflow_uuid = r."workflowId"
      and w.owner_xid = r.owner
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
on conflict (workflow_uuid, function_id) do nothing;

-- steps.record-effects
with
  main as (
    insert into
      "dbos".operation_outputs (
        workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
        started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
      )
    select
      r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
      r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
    on conflict (workflow_uuid, function_id) do nothing
    returning
      workflow_uuid, function_id,
      (
        operation_outputs.error is null
        or operation_outputs.function_name = 'DBOS.recv'
      ) as landed
  )
select
  *
from
  main;

-- steps.record-effects (consume)
with
  main as (
    insert into
      "dbos".operation_outputs (
        workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
        started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
      )
    select
      r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
      r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
      and (
        r.consumes is null
        or (
          select
            1
          from
            "dbos".notifications n
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
      ) as landed
  ),
  also0 as (
    update "dbos".notifications as n
    set
      consumed = true, consumed_by = e."stepNumber"
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'consume'
      and n.message_uuid = e.id
  )
select
  *
from
  main;

-- steps.record-effects (event)
with
  main as (
    insert into
      "dbos".operation_outputs (
        workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
        started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
      )
    select
      r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
      r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
    on conflict (workflow_uuid, function_id) do nothing
    returning
      workflow_uuid, function_id,
      (
        operation_outputs.error is null
        or operation_outputs.function_name = 'DBOS.recv'
      ) as landed
  ),
  also0 as (
    insert into
      "dbos".workflow_events (workflow_uuid, key, value, serialization)
    select
      last."workflowId", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  ),
  also1 as (
    insert into
      "dbos".workflow_events_history (workflow_uuid, function_id, key, value, serialization)
    select
      last."workflowId", last."stepNumber", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e."stepNumber", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, function_id, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  )
select
  *
from
  main;

-- steps.record-effects (message-consume-event-stream)
with
  main as (
    insert into
      "dbos".operation_outputs (
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
            json_to_recordset(coalesce(r.recipients, r.effects)::text::json) as x ("kind" text, "destination" text)
          where
            x.kind = 'message'
            and not exists (
              select
                1
              from
                "dbos".workflow_status d
              where
                d.workflow_uuid = x.destination
            )
        ) then r."errorIfAbsent"
        else r.error
      end, r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq",
      r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
      and (
        r.consumes is null
        or (
          select
            1
          from
            "dbos".notifications n
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
      ) as landed
  ),
  also0 as (
    insert into
      "dbos".notifications (
        message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms,
        announced_by_sender
      )
    select
      e.id, e.destination, e.key, e.value, e.serialization, e.at, true
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'message'
    order by
      e."completionSeq", e.position
    on conflict (message_uuid) do nothing
  ),
  also1 as (
    update "dbos".notifications as n
    set
      consumed = true, consumed_by = e."stepNumber"
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'consume'
      and n.message_uuid = e.id
  ),
  also2 as (
    insert into
      "dbos".workflow_events (workflow_uuid, key, value, serialization)
    select
      last."workflowId", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  ),
  also3 as (
    insert into
      "dbos".workflow_events_history (workflow_uuid, function_id, key, value, serialization)
    select
      last."workflowId", last."stepNumber", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e."stepNumber", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, function_id, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  ),
  also4 as (
    insert into
      "dbos".streams (workflow_uuid, key, value, "offset", function_id, serialization)
    select
      e."workflowId", e.key, e.value,
      e.nth + max(
        case
          when e.nth = 1 then coalesce(
            (
              select
                max(s."offset")
              from
                "dbos".streams s
              where
                s.workflow_uuid = e."workflowId"
                and s.key = e.key
            ),
            -1
          )
        end
      ) over (
        partition by
          e."workflowId", e.key
      ),
      e."stepNumber", e.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq", e.position
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'stream'
      ) e
  )
select
  *
from
  main;

-- steps.record-effects (message)
with
  main as (
    insert into
      "dbos".operation_outputs (
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
            json_to_recordset(coalesce(r.recipients, r.effects)::text::json) as x ("kind" text, "destination" text)
          where
            x.kind = 'message'
            and not exists (
              select
                1
              from
                "dbos".workflow_status d
              where
                d.workflow_uuid = x.destination
            )
        ) then r."errorIfAbsent"
        else r.error
      end, r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq",
      r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
    on conflict (workflow_uuid, function_id) do nothing
    returning
      workflow_uuid, function_id,
      (
        operation_outputs.error is null
        or operation_outputs.function_name = 'DBOS.recv'
      ) as landed
  ),
  also0 as (
    insert into
      "dbos".notifications (
        message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms,
        announced_by_sender
      )
    select
      e.id, e.destination, e.key, e.value, e.serialization, e.at, true
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'message'
    order by
      e."completionSeq", e.position
    on conflict (message_uuid) do nothing
  )
select
  *
from
  main;

-- steps.record-effects (portions)
with
  main as (
    select
      o.workflow_uuid, o.function_id,
      (
        o.error is null
        or o.function_name = 'DBOS.recv'
      ) as landed
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      join "dbos".operation_outputs o on o.workflow_uuid = r."workflowId"
      and o.function_id = r."stepNumber"
    where
      o.xmin = pg_current_xact_id()::xid
      and $1::text is not null
  ),
  also0 as (
    insert into
      "dbos".notifications (
        message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms,
        announced_by_sender
      )
    select
      e.id, e.destination, e.key, e.value, e.serialization, e.at, true
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'message'
    order by
      e."completionSeq", e.position
    on conflict (message_uuid) do nothing
  ),
  also1 as (
    update "dbos".notifications as n
    set
      consumed = true, consumed_by = e."stepNumber"
    from
      (
        select
          r."workflowId", r."stepNumber", r."completionSeq", t.*
        from
          unnest(
            $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
            $17::text[], $18::text[], $19::text[], $20::text[]
          ) as r (
            "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
            "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
            "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
          )
          cross join lateral rows
        from
          (
            json_to_recordset(r."effects"::json) as (
              "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
              "at" bigint
            )
          ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
        where
          (
            (r."workflowId", r."stepNumber") in (
              select
                workflow_uuid, function_id
              from
                main
              where
                landed
            )
          ) is true
      ) e
    where
      e.kind = 'consume'
      and n.message_uuid = e.id
  ),
  also2 as (
    insert into
      "dbos".workflow_events (workflow_uuid, key, value, serialization)
    select
      last."workflowId", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  ),
  also3 as (
    insert into
      "dbos".workflow_events_history (workflow_uuid, function_id, key, value, serialization)
    select
      last."workflowId", last."stepNumber", last.key, last.value, last.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e."stepNumber", e.key
            order by
              e."completionSeq" desc, e.position desc
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'event'
      ) last
    where
      last.nth = 1
    on conflict (workflow_uuid, function_id, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  ),
  also4 as (
    insert into
      "dbos".streams (workflow_uuid, key, value, "offset", function_id, serialization)
    select
      e."workflowId", e.key, e.value,
      e.nth + max(
        case
          when e.nth = 1 then coalesce(
            (
              select
                max(s."offset")
              from
                "dbos".streams s
              where
                s.workflow_uuid = e."workflowId"
                and s.key = e.key
            ),
            -1
          )
        end
      ) over (
        partition by
          e."workflowId", e.key
      ),
      e."stepNumber", e.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq", e.position
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'stream'
      ) e
  )
select
  *
from
  main;

-- steps.record-effects (stream)
with
  main as (
    insert into
      "dbos".operation_outputs (
        workflow_uuid, function_id, function_name, output, error, serialization, child_workflow_id,
        started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name
      )
    select
      r."workflowId", r."stepNumber", r.name, r.output, r.error, r.serialization, r."childWorkflowId",
      r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1
    from
      unnest(
        $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
        $17::text[], $18::text[], $19::text[], $20::text[]
      ) as r (
        "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization", "childWorkflowId",
        "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep", "afterSeq", "afterAlso",
        "effects", "recipients", "consumes", "errorIfAbsent"
      )
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
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
    on conflict (workflow_uuid, function_id) do nothing
    returning
      workflow_uuid, function_id,
      (
        operation_outputs.error is null
        or operation_outputs.function_name = 'DBOS.recv'
      ) as landed
  ),
  also0 as (
    insert into
      "dbos".streams (workflow_uuid, key, value, "offset", function_id, serialization)
    select
      e."workflowId", e.key, e.value,
      e.nth + max(
        case
          when e.nth = 1 then coalesce(
            (
              select
                max(s."offset")
              from
                "dbos".streams s
              where
                s.workflow_uuid = e."workflowId"
                and s.key = e.key
            ),
            -1
          )
        end
      ) over (
        partition by
          e."workflowId", e.key
      ),
      e."stepNumber", e.serialization
    from
      (
        select
          e.*,
          row_number() over (
            partition by
              e."workflowId", e.key
            order by
              e."completionSeq", e.position
          ) as nth
        from
          (
            select
              r."workflowId", r."stepNumber", r."completionSeq", t.*
            from
              unnest(
                $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::bigint[], $11::bigint[], $12::int[], $13::int[], $14::int[], $15::int[], $16::text[],
                $17::text[], $18::text[], $19::text[], $20::text[]
              ) as r (
                "workflowId", "owner", "stepNumber", "name", "output", "error", "serialization",
                "childWorkflowId", "startedAt", "completedAt", "completionSeq", "requestedAfter", "afterStep",
                "afterSeq", "afterAlso", "effects", "recipients", "consumes", "errorIfAbsent"
              )
              cross join lateral rows
            from
              (
                json_to_recordset(r."effects"::json) as (
                  "kind" text, "id" text, "destination" text, "key" text, "value" text, "serialization" text,
                  "at" bigint
                )
              ) with ordinality as t ("kind", "id", "destination", "key", "value", "serialization", "at", "position")
            where
              (
                (r."workflowId", r."stepNumber") in (
                  select
                    workflow_uuid, function_id
                  from
                    main
                  where
                    landed
                )
              ) is true
          ) e
        where
          e.kind = 'stream'
      ) e
  )
select
  *
from
  main;

-- steps.states
select
  w.workflow_uuid, r."stepNumber" as step_number, w.owner_xid, w.status, o.function_id, o.error,
  o.completion_seq
from
  unnest($1::text[], $2::int[]) as r ("workflowId", "stepNumber")
  join "dbos".workflow_status w on w.workflow_uuid = r."workflowId"
  left join "dbos".operation_outputs o on o.workflow_uuid = w.workflow_uuid
  and o.function_id = r."stepNumber";

