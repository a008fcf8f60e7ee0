create or replace function tasker.create_decided(p_decisions uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_step   record;
  v_chosen text[];
  v_last   int;
  v_new    tasker.named_steps[];
  v_feeds  record;
  v_ready  uuid[] := array[]::uuid[];
begin
  for v_step in
    select s.workflow_step_uuid, s.task_uuid, s.options -> 'creates' as creates,
           tasker.whole_result(s.result_transition_uuid, s.sensitive_result, t.metadata) as result
      from tasker.workflow_steps s
      join tasker.workflow_step_transitions t on t.workflow_step_transition_uuid = s.result_transition_uuid
     where s.workflow_step_uuid = any (p_decisions)
     order by s.task_uuid, s.ordinal
  loop
    -- one that is decided anew creates what is not there yet
    v_chosen := array(select distinct c.name
                        from jsonb_array_elements_text(case when jsonb_typeof(v_step.result -> 'create') = 'array' then v_step.result -> 'create' else '[]' end) as c(name)
                       where v_step.creates ? c.name
                         and not exists (select from tasker.workflow_steps w where w.task_uuid = v_step.task_uuid and w.name = c.name)
                       order by 1);
    continue when cardinality(v_chosen) = 0;
    select max(s.ordinal) into v_last from tasker.workflow_steps s where s.task_uuid = v_step.task_uuid;
    v_new := array(
      select (null, null, n.name, n.handler, n.ordinal + v_last,
              -- of the others that the decision might have created they wait for none
              array(select d + v_last from unnest(n.depends_on) d)
                || array(select w.ordinal from jsonb_array_elements_text(v_step.creates #> array[n.name, 'step', 'depends_on']) as d(name)
                           join tasker.workflow_steps w on w.task_uuid = v_step.task_uuid and w.name = d.name and w.ordinal <= v_last),
              n.arguments, n.retryable, n.max_attempts, n.base_delay, n.max_delay, n.jitter, n.timeout, n.tool, n.requires, n.acceptance, n.on_failure,
              n.condition, n.skips_dependents, n.sensitive, n.sensitive_result, n.delay, n.options)::tasker.named_steps
        from tasker.template_steps(jsonb_build_object('steps', (select jsonb_agg(v_step.creates #> array[c.name, 'step'] order by c.name)
                                                                  from unnest(v_chosen) as c(name)),
                                                    'compensate', v_step.creates #> array[v_chosen[1], 'compensate']), null) n
       order by n.ordinal);
    select array_agg(n.ordinal) as ordinals, array_agg(w.workflow_step_uuid) as steps
      into v_feeds
      from unnest(v_new) n
     cross join lateral jsonb_array_elements_text(v_step.creates #> array[n.name, 'feeds']) as f(name)
      join tasker.workflow_steps w on w.task_uuid = v_step.task_uuid and w.name = f.name;
    v_ready := v_ready || tasker.grow_task(v_step.task_uuid, v_new, coalesce(v_feeds.ordinals, '{}'), coalesce(v_feeds.steps, '{}'));

    -- what was done in a task that this one resumes is an input too
    insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
    with recursive before_it as (
      select k.resumes_task_uuid as task_uuid, 1 as far from tasker.tasks k where k.task_uuid = v_step.task_uuid
       union
      select k.resumes_task_uuid, b.far + 1 from before_it b join tasker.tasks k on k.task_uuid = b.task_uuid)
    select distinct on (n.workflow_step_uuid, d.name) v_step.task_uuid, w.workflow_step_uuid, n.workflow_step_uuid
      from unnest(v_new) p
      join tasker.workflow_steps n on n.task_uuid = v_step.task_uuid and n.name = p.name
     cross join lateral jsonb_array_elements_text(v_step.creates #> array[p.name, 'step', 'depends_on']) as d(name)
      join before_it b on b.task_uuid is not null
      join tasker.workflow_steps w on w.task_uuid = b.task_uuid and w.name = d.name and not v_step.creates ? d.name
     where not exists (select from tasker.workflow_steps h where h.task_uuid = v_step.task_uuid and h.name = d.name)
     order by n.workflow_step_uuid, d.name, b.far;
  end loop;
  return v_ready;
end
$$;
comment on function tasker.create_decided(uuid[]) is
  'Creates the steps that these decisions, which are done, say: {"create": [names]}. What depends on possible steps waits for those that there are now. Answers the new steps that are ready. The caller holds the locks of the tasks.';
