-- messages.inboxState
select
  count(*) as waiting, coalesce(sum(octet_length(message)), 0) as bytes
from
  notifications
where
  destination_uuid = $1
  and topic = $2
  and consumed = false;

-- messages.known
select
  message_uuid
from
  notifications
where
  message_uuid in (
    select
      value
    from
      json_each($1)
  );

-- messages.list
select
  topic, message, serialization, created_at_epoch_ms, consumed
from
  notifications
where
  destination_uuid = $1
order by
  rowid;

-- messages.send
insert into
  notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, announced_by_sender
  )
select
  r."messageId", r.destination, r.topic, r.value, r.serialization, r."sentAt", true
from
  (
    select
      $1 as "messageId", $2 as "destination", $3 as "topic", $4 as "value", $5 as "serialization",
      $6 as "sentAt"
  ) as r
where
  exists (
    select
      1
    from
      workflow_status w
    where
      w.workflow_uuid = r.destination
  )
on conflict (message_uuid) do nothing
returning
  message_uuid;

-- messages.sendAll
insert into
  notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, announced_by_sender
  )
select
  r."messageId", r.destination, r.topic, r.value, r.serialization, r."sentAt", true
from
  (
    select
      value ->> 'messageId' as "messageId", value ->> 'destination' as "destination",
      value ->> 'topic' as "topic", value ->> 'value' as "value",
      value ->> 'serialization' as "serialization", value ->> 'sentAt' as "sentAt"
    from
      json_each($1)
  ) as r
where
  not exists (
    select
      1
    from
      (
        select
          value ->> 'destination' as "destination"
        from
          json_each($1)
      ) as x
    where
      not exists (
        select
          1
        from
          workflow_status w
        where
          w.workflow_uuid = x.destination
      )
  )
on conflict (message_uuid) do nothing;

-- messages.waiting
select
  r."workflowId" as workflow_uuid, r.topic, m.message_uuid, m.message, m.serialization
from
  (
    select
      $1 as "workflowId", $2 as "topic", $3 as "most"
  ) as r
  inner join (
    select
      message_uuid, message, serialization
    from
      notifications
    where
      destination_uuid = $1
      and topic = $2
      and consumed = false
    order by
      rowid
    limit
      $3
  ) m on true;

