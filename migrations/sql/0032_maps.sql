-- Map steps: what their elements get as inputs is found without looking at all the other elements.
create index workflow_step_edges_waived_idx on tasker.workflow_step_edges (to_step_uuid) where waived;
comment on index tasker.workflow_step_edges_waived_idx is 'What a step depended on and waits for no more; the dependencies of a map step, which its elements get as inputs.';
