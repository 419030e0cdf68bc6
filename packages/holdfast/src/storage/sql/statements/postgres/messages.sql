-- messages.inboxState
select
  count(*) as waiting, coalesce(sum(octet_length(message)), 0) as bytes
from
  "dbos".notifications
where
  destination_uuid = $1
  and topic = $2
  and consumed = false;

-- messages.known
select
  message_uuid
from
  "dbos".notifications
where
  message_uuid = any ($1::text[]);

-- messages.list
select
  topic, message, serialization, created_at_epoch_ms, consumed
from
  "dbos".notifications
where
  destination_uuid = $1
order by
  send_seq nulls first, created_at_epoch_ms;

-- messages.send
insert into
  "dbos".notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, announced_by_sender
  )
select
  r."messageId", r.destination, r.topic, r.value, r.serialization, r."sentAt", true
from
  unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[]) as r ("messageId", "destination", "topic", "value", "serialization", "sentAt")
where
  exists (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.workflow_uuid = r.destination
  )
on conflict (message_uuid) do nothing
returning
  message_uuid;

-- messages.sendAll
insert into
  "dbos".notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, announced_by_sender
  )
select
  r."messageId", r.destination, r.topic, r.value, r.serialization, r."sentAt", true
from
  json_to_recordset($1::text::json) as r (
    "messageId" text, "destination" text, "topic" text, "value" text, "serialization" text, "sentAt" bigint
  )
where
  not exists (
    select
      1
    from
      json_to_recordset($1::text::json) as x ("destination" text)
    where
      not exists (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = x.destination
      )
  )
on conflict (message_uuid) do nothing;

-- messages.waiting
select
  r."workflowId" as workflow_uuid, r.topic, m.message_uuid, m.message, m.serialization
from
  unnest($1::text[], $2::text[], $3::int[]) as r ("workflowId", "topic", "most")
  inner join lateral (
    select
      message_uuid, message, serialization
    from
      "dbos".notifications
    where
      destination_uuid = r."workflowId"
      and topic = r."topic"
      and consumed = false
    order by
      send_seq nulls first, created_at_epoch_ms
    limit
      r."most"
  ) m on true;

