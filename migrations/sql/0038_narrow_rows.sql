-- A step knows its task and its namespace: who sends it to its queue names it and nothing else.
drop function if exists tasker.enqueue_steps(uuid[], uuid[], text[], boolean);
